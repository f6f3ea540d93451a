//! What happens to locks, for the metrics and logs of a program.
//!
//! - [`Builder::on_event`](crate::Builder::on_event) passes each [`Event`] to the program.
//! - [`Locker::stats`](crate::Locker::stats) reads counters that are always on.
//! - With the feature `metrics`, `record_metrics` passes events on to the recorder of the crate `metrics`.

#[cfg(feature = "metrics")]
mod record;

pub use quorumlock_protocol::ClockAnomaly;
pub use quorumlock_protocol::telemetry::{
    CallOutcome, ConnectionEnd, Event, HoldEnd, LockId, LockKind, Mode, Stats, VoteAnswer,
};

#[cfg(feature = "metrics")]
pub use record::{BUCKETS, METRICS, Metric, MetricKind, describe_metrics, record_metrics};
