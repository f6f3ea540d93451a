//! The metrics of the crate `metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{
    Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{ClockAnomaly, ConnectionEnd, Event, HoldEnd, LockId};
use crate::LossReason;

/// A metric that [`record_metrics`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name. Prometheus shows `_` for each dot.
    pub name: &'static str,
    /// Whether it counts, shows a present number, or has a distribution in seconds.
    pub kind: MetricKind,
    /// Its labels. No label has a value of many: no lock's name is one, and nodes are few.
    pub labels: &'static [&'static str],
    /// What it says, for people.
    pub about: &'static str,
}

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of times, in seconds.
    Histogram,
}

const WAITING: &str = "quorumlock.waiting";
const ACQUIRE: &str = "quorumlock.acquire.duration";
const HELD: &str = "quorumlock.held";
const AT_RISK: &str = "quorumlock.at.risk";
const LONG: &str = "quorumlock.held.long";
const HOLD: &str = "quorumlock.hold.duration";
const MARGIN: &str = "quorumlock.unlock.margin";
const LOST: &str = "quorumlock.lost";
const HANDOFF: &str = "quorumlock.handoff";
const RENEW: &str = "quorumlock.renew.duration";
const RENEWED: &str = "quorumlock.renewals";
const VOTE: &str = "quorumlock.vote.duration";
const UP: &str = "quorumlock.node.up";
const ADMITTED: &str = "quorumlock.node.admitted";
const RECONNECTS: &str = "quorumlock.node.reconnects";
const CLOCK: &str = "quorumlock.node.clock.steps";

const LOSSES: [LossReason; 4] =
    [LossReason::WindowShut, LossReason::Gone, LossReason::Forced, LossReason::HoldLimit];
const RENEWALS: [&str; 3] = ["confirmed", "unconfirmed", "gone"];
const REBEGUN: [ConnectionEnd; 4] = [
    ConnectionEnd::Broken,
    ConnectionEnd::Idle,
    ConnectionEnd::Unanswered,
    ConnectionEnd::Replaced,
];
const DIRECTIONS: [&str; 3] = ["forward", "back", "frozen"];

/// Buckets for the histograms, in seconds: from a lock that is free to a wait of a minute. The dashboard and the
/// alerts of docs/monitoring/ need them.
pub const BUCKETS: [f64; 9] = [0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];

/// All metrics.
pub const METRICS: &[Metric] = &[
    Metric {
        name: WAITING,
        kind: MetricKind::Gauge,
        labels: &["mode", "kind"],
        about: "Calls that wait for a lock.",
    },
    Metric {
        name: ACQUIRE,
        kind: MetricKind::Histogram,
        labels: &["mode", "kind", "outcome"],
        about: "How long calls for a lock took, failed ones included.",
    },
    Metric {
        name: HELD,
        kind: MetricKind::Gauge,
        labels: &["mode", "kind"],
        about: "Locks that are held.",
    },
    Metric {
        name: AT_RISK,
        kind: MetricKind::Gauge,
        labels: &["mode", "kind"],
        about: "Locks that are held and at risk: none of their last renewals is confirmed.",
    },
    Metric {
        name: LONG,
        kind: MetricKind::Gauge,
        labels: &["mode", "kind"],
        about: "Locks that are held for longer than `Builder::long_hold`.",
    },
    Metric {
        name: HOLD,
        kind: MetricKind::Histogram,
        labels: &["mode", "kind", "end"],
        about: "How long locks were held.",
    },
    Metric {
        name: MARGIN,
        kind: MetricKind::Histogram,
        labels: &["mode", "kind"],
        about: "How much of the lease was left at the release: how near holders came to a loss.",
    },
    Metric {
        name: LOST,
        kind: MetricKind::Counter,
        labels: &["mode", "kind", "reason"],
        about: "Locks that were lost.",
    },
    Metric {
        name: HANDOFF,
        kind: MetricKind::Counter,
        labels: &["mode", "kind"],
        about: "Locks that passed to the next task of the process without a request.",
    },
    Metric {
        name: RENEW,
        kind: MetricKind::Histogram,
        labels: &["mode"],
        about: "How long the watchdog's renewals took.",
    },
    Metric {
        name: RENEWED,
        kind: MetricKind::Counter,
        labels: &["mode", "outcome"],
        about: "Renewals of one lease by the watchdog: confirmed, unconfirmed (asked again), gone.",
    },
    Metric {
        name: VOTE,
        kind: MetricKind::Histogram,
        labels: &["node", "answer"],
        about: "How long a node took to answer requests for locks.",
    },
    Metric {
        name: UP,
        kind: MetricKind::Gauge,
        labels: &["node"],
        about: "Connections to the node: two for each locker, once used.",
    },
    Metric {
        name: ADMITTED,
        kind: MetricKind::Gauge,
        labels: &["node"],
        about: "Those of them over which the node may vote.",
    },
    Metric {
        name: RECONNECTS,
        kind: MetricKind::Counter,
        labels: &["node", "why"],
        about: "Connections to the node that ended before their locker did.",
    },
    Metric {
        name: CLOCK,
        kind: MetricKind::Counter,
        labels: &["node", "direction"],
        about: "Steps of the node's clock: forward, back, frozen.",
    },
];

/// Records an event in the recorder that the program has installed: a handler for
/// [`Builder::on_event`](crate::Builder::on_event). Needs the feature `metrics`.
///
/// ```no_run
/// # fn doc() -> Result<(), quorumlock::Error> {
/// use quorumlock::{Locker, Servers, telemetry};
///
/// // Install a recorder first, such as that of metrics-exporter-prometheus.
/// telemetry::describe_metrics();
/// let servers = Servers::single("redis://127.0.0.1");
/// let locker = Locker::builder(servers).on_event(telemetry::record_metrics).build()?;
/// # Ok(()) }
/// ```
pub fn record_metrics(event: &Event<'_>) {
    match event {
        Event::CallBegan { lock } => gauge!(WAITING, labels(lock, [])).increment(1),
        Event::CallEnded { lock, outcome, took } => {
            gauge!(WAITING, labels(lock, [])).decrement(1);
            histogram!(ACQUIRE, labels(lock, [("outcome", outcome.as_str())])).record(*took);
        }
        Event::HoldBegan { lock } => {
            gauge!(HELD, labels(lock, [])).increment(1);
            count_from_zero(lock);
        }
        Event::HoldEnded { lock, end, held, left } => {
            gauge!(HELD, labels(lock, [])).decrement(1);
            histogram!(HOLD, labels(lock, [("end", end.as_str())])).record(*held);
            match end {
                HoldEnd::Lost(_) => {
                    counter!(LOST, labels(lock, [("reason", end.as_str())])).increment(1);
                }
                _ => histogram!(MARGIN, labels(lock, [])).record(*left),
            }
            if *end == HoldEnd::HandedOff {
                counter!(HANDOFF, labels(lock, [])).increment(1);
            }
        }
        Event::RiskBegan { lock, .. } => gauge!(AT_RISK, labels(lock, [])).increment(1),
        Event::RiskEnded { lock } => gauge!(AT_RISK, labels(lock, [])).decrement(1),
        Event::LongHoldBegan { lock, .. } => gauge!(LONG, labels(lock, [])).increment(1),
        Event::LongHoldEnded { lock } => gauge!(LONG, labels(lock, [])).decrement(1),
        Event::Renewed { mode, confirmed, unconfirmed, gone, took } => {
            let mode = mode.as_str();
            histogram!(RENEW, "mode" => mode).record(*took);
            for (outcome, count) in RENEWALS.into_iter().zip([confirmed, unconfirmed, gone]) {
                counter!(RENEWED, "mode" => mode, "outcome" => outcome).increment(*count as u64);
            }
        }
        event => record_node(event),
    }
}

/// Records an event of a node.
fn record_node(event: &Event<'_>) {
    match *event {
        Event::Voted { node, answer, took } => {
            histogram!(VOTE, "node" => node.to_owned(), "answer" => answer.as_str()).record(took);
        }
        Event::Connected { node, admitted } => {
            count_connection(node, admitted, 1.0);
            for end in REBEGUN {
                counter!(RECONNECTS, "node" => node.to_owned(), "why" => end.as_str()).increment(0);
            }
            for direction in DIRECTIONS {
                counter!(CLOCK, "node" => node.to_owned(), "direction" => direction).increment(0);
            }
        }
        Event::Disconnected { node, admitted, end } => {
            count_connection(node, admitted, -1.0);
            if end != ConnectionEnd::Closed {
                counter!(RECONNECTS, "node" => node.to_owned(), "why" => end.as_str()).increment(1);
            }
        }
        Event::NodeClock { node, anomaly } => {
            let direction = match anomaly {
                ClockAnomaly::Forward(_) => DIRECTIONS[0],
                ClockAnomaly::Back(_) => DIRECTIONS[1],
                ClockAnomaly::Frozen => DIRECTIONS[2],
            };
            counter!(CLOCK, "node" => node.to_owned(), "direction" => direction).increment(1);
        }
        _ => {}
    }
}

/// Makes the counters of a lock's mode and kind at their first hold. An alert compares two values: it does
/// not see the first loss if the counter begins with it.
fn count_from_zero(lock: &LockId<'_>) {
    /// Which modes and kinds have been held: a byte of kinds for each mode.
    static HELD_BEFORE: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << (8 * lock.mode as u64 + lock.kind as u64);
    if HELD_BEFORE.load(Ordering::Relaxed) & bit != 0
        || HELD_BEFORE.fetch_or(bit, Ordering::Relaxed) & bit != 0
    {
        return;
    }
    for why in LOSSES {
        counter!(LOST, labels(lock, [("reason", HoldEnd::Lost(why).as_str())])).increment(0);
    }
    counter!(HANDOFF, labels(lock, [])).increment(0);
    gauge!(AT_RISK, labels(lock, [])).increment(0);
    gauge!(LONG, labels(lock, [])).increment(0);
    for outcome in RENEWALS {
        counter!(RENEWED, "mode" => lock.mode.as_str(), "outcome" => outcome).increment(0);
    }
}

fn count_connection(node: &str, admitted: bool, by: f64) {
    gauge!(UP, "node" => node.to_owned()).increment(by);
    // A node that may not vote shows 0.
    gauge!(ADMITTED, "node" => node.to_owned()).increment(if admitted { by } else { 0.0 });
}

/// The labels of a lock, and `more`.
fn labels<const N: usize>(
    lock: &LockId<'_>,
    more: [(&'static str, &'static str); N],
) -> Vec<Label> {
    let of_lock = [("mode", lock.mode.as_str()), ("kind", lock.kind.as_str())];
    let labels = of_lock.into_iter().chain(more);
    labels.map(|(key, value)| Label::from_static_parts(key, value)).collect()
}

/// Gives the installed recorder the unit and the description of each metric. Needs the feature `metrics`.
pub fn describe_metrics() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, metric.about),
            MetricKind::Gauge => describe_gauge!(metric.name, metric.about),
            MetricKind::Histogram => {
                describe_histogram!(metric.name, Unit::Seconds, metric.about);
            }
        }
    }
}
