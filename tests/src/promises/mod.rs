//! What docs/SAFETY.md promises: each promise is one function of a [`Testbed`](crate::Testbed).
//!
//! A test uses a long lease where only an event may explain that something happens sooner, and a
//! short lease where it waits for the end. Bounds are safety bounds, or as generous as
//! [`MAX_WAIT`](crate::MAX_WAIT).

use std::time::Duration;

use quorumlock::LossReason;

pub mod blocking;
pub mod cancel;
pub mod election;
pub mod exclusion;
pub mod fencing;
pub mod forced;
pub mod handles;
pub mod handover;
pub mod heard;
pub mod keeping;
pub mod labels;
pub mod loss;
pub mod permits;
pub mod read_write;
pub mod reentry;
pub mod release;
pub mod renewing;
pub mod runtimes;
pub mod several_names;
pub mod takeover;
pub mod telemetry;
pub mod tickets;
pub mod waiting;

/// Longer than any test, so that the end of the lease explains nothing.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// A lease whose end or renewal a test waits for.
const SHORT_LEASE: Duration = Duration::from_millis(900);

/// A lease that must be renewed: a loaded machine does so in time.
const RENEWED_LEASE: Duration = Duration::from_secs(2);

const NAME: &str = "invoice/7";

/// Whether somebody took the lock away. On a slow machine the holder may hear of it before it asks.
fn is_taken_away(why: LossReason) -> bool {
    matches!(why, LossReason::Gone | LossReason::Forced)
}
