//! What happens to locks, for a program's metrics and logs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Answer, ClockAnomaly, Denial, LossReason};

/// Something that happened to a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call asks for a lock. Exactly one `CallEnded` follows.
    CallBegan {
        /// What it asks for.
        lock: LockId<'a>,
    },
    /// A call has its answer, the locker was closed, or its future was dropped.
    CallEnded {
        /// What it asked for.
        lock: LockId<'a>,
        /// How it ended.
        outcome: CallOutcome,
        /// How long it took, the wait for other holders included.
        took: Duration,
    },
    /// A hold began. Exactly one `HoldEnded` follows, unless the process ends before. Guards of one owner
    /// share a hold.
    HoldBegan {
        /// What is held.
        lock: LockId<'a>,
    },
    /// A hold ended.
    HoldEnded {
        /// What was held.
        lock: LockId<'a>,
        /// How it ended.
        end: HoldEnd,
        /// How long the lock was held, from when it was asked for.
        held: Duration,
        /// How much of the lease was left: how near the holder came to a loss. After a loss, how long the
        /// holder might still have counted on it.
        left: Duration,
    },
    /// None of the last renewals of a hold is confirmed, as `Guard::is_at_risk` says. Exactly one
    /// `RiskEnded` follows, before the `HoldEnded` of the hold at the latest.
    RiskBegan {
        /// What is held.
        lock: LockId<'a>,
        /// When the lock is lost, if no renewal is confirmed until then.
        left: Duration,
    },
    /// A renewal of such a hold is confirmed, or the hold has ended.
    RiskEnded {
        /// What is held, or was held.
        lock: LockId<'a>,
    },
    /// A hold has lasted for the time that `Builder::long_hold` sets. Exactly one `LongHoldEnded` follows, before
    /// the `HoldEnded` of the hold.
    LongHoldBegan {
        /// What is held.
        lock: LockId<'a>,
        /// For how long.
        held: Duration,
    },
    /// Such a hold has ended.
    LongHoldEnded {
        /// What was held.
        lock: LockId<'a>,
    },
    /// The watchdog's renewal of some locks has ended.
    Renewed {
        /// Which servers renewed them.
        mode: Mode,
        /// How many leases the nodes have confirmed.
        confirmed: usize,
        /// How many leases they have not confirmed in time. The watchdog asks again.
        unconfirmed: usize,
        /// How many leases are gone.
        gone: usize,
        /// How long the nodes took.
        took: Duration,
    },
    /// A node has answered a request for a lock, or gives no answer any more. That may come after the
    /// call has ended: a call does not wait for all nodes.
    Voted {
        /// The node's URL without user and password.
        node: &'a str,
        /// What it answered.
        answer: VoteAnswer,
        /// How long it took.
        took: Duration,
    },
    /// A connection to a node is up. A locker has two for requests; the one for messages has no event.
    /// Exactly one `Disconnected` follows, unless the process ends before.
    Connected {
        /// The node's URL without user and password.
        node: &'a str,
        /// Whether the node may vote. Without admission, each node may.
        admitted: bool,
    },
    /// A connection to a node has ended.
    Disconnected {
        /// The node's URL without user and password.
        node: &'a str,
        /// What `Connected` said.
        admitted: bool,
        /// Why.
        end: ConnectionEnd,
    },
    /// A renewal has found that a node's clock does not run as ours does.
    NodeClock {
        /// The node's URL without user and password.
        node: &'a str,
        /// What it does.
        anomaly: ClockAnomaly,
    },
}

/// Which lock an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockId<'a> {
    /// Which servers it is on, for the labels of metrics.
    pub mode: Mode,
    /// Its kind, for the labels of metrics.
    pub kind: LockKind,
    /// Its name, with the locker's prefix; of several names, all of them. There may be millions of names:
    /// they are for logs, and not for the labels of metrics.
    pub name: &'a str,
}

/// Which servers a locker asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A single server.
    #[default]
    Single,
    /// A master with replicas.
    Replicated,
    /// The masters of a Redis Cluster.
    Cluster,
    /// Independent servers, of which a majority decides.
    Quorum,
}

/// What kind of lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// A lock of one name.
    Lock,
    /// Several names in one step.
    All,
    /// One of the permits of a name.
    Permit,
    /// A read-write lock, for reading.
    Read,
    /// A read-write lock, for writing.
    Write,
}

/// How a call for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The caller has the lock.
    Granted,
    /// Another client held it until the end of the wait.
    Busy,
    /// Too few nodes answered.
    Unreachable,
    /// Enough nodes answered, and too few of them can vote.
    Refused,
    /// Another error, as the loss of the owner's outer hold. A call with bad input does not begin.
    Failed,
    /// The locker was closed.
    Closed,
    /// The caller dropped the future.
    Dropped,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// Its holder released it, or left it to another process.
    Released,
    /// It passed on to the next hold of this process: that of a waiting task, or of the reader after a
    /// downgrade.
    HandedOff,
    /// It was lost.
    Lost(LossReason),
}

/// What a node answered to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VoteAnswer {
    /// Yes.
    Granted,
    /// Another client holds the lock there.
    Busy,
    /// The node must be verified first.
    Stale,
    /// The node may not vote: its memory is not proven.
    NotAdmitted,
    /// The server refused the request, or cannot serve it.
    Refused,
    /// Nothing: it was not reached, or its connection broke.
    NoAnswer,
}

/// Why a connection to a node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionEnd {
    /// It broke while a request was in flight, after the node had answered others.
    Broken,
    /// It broke while no request was in flight.
    Idle,
    /// The node answered none of the requests on it.
    Unanswered,
    /// The locker replaces it: to verify the node again, or because its credentials end.
    Replaced,
    /// The locker or its runtime has ended.
    Closed,
}

impl Mode {
    /// The mode as a word, for the labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Replicated => "replicated",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
        }
    }
}

impl LockKind {
    /// The kind as a word, for the labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::All => "all",
            Self::Permit => "permit",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl CallOutcome {
    /// The outcome as a word, for the labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Closed => "closed",
            Self::Dropped => "dropped",
        }
    }
}

impl HoldEnd {
    /// The end as a word, for the labels of metrics. A loss is its reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released | Self::Lost(LossReason::Released) => "released",
            Self::HandedOff => "handed_off",
            Self::Lost(LossReason::WindowShut) => "window_shut",
            Self::Lost(LossReason::Gone) => "gone",
            Self::Lost(LossReason::Forced) => "forced",
            Self::Lost(LossReason::HoldLimit) => "hold_limit",
        }
    }
}

impl VoteAnswer {
    /// The answer as a word, for the labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Busy => "busy",
            Self::Stale => "stale",
            Self::NotAdmitted => "not_admitted",
            Self::Refused => "refused",
            Self::NoAnswer => "no_answer",
        }
    }
}

impl ConnectionEnd {
    /// The end as a word, for the labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Unanswered => "unanswered",
            Self::Replaced => "replaced",
            Self::Closed => "closed",
        }
    }
}

impl VoteAnswer {
    /// What an answer means.
    #[doc(hidden)]
    pub fn of<T>(answer: &Answer<T>) -> Self {
        match answer {
            Answer::Yes(_) => Self::Granted,
            Answer::No(Denial::Busy(_)) => Self::Busy,
            Answer::No(Denial::Stale(_) | Denial::Gone) => Self::Stale,
            Answer::No(Denial::NotAdmitted(_)) => Self::NotAdmitted,
            Answer::No(Denial::Refused(_) | Denial::Config(_)) => Self::Refused,
            Answer::NoAnswer(_) => Self::NoAnswer,
        }
    }
}

impl From<LossReason> for HoldEnd {
    fn from(loss: LossReason) -> Self {
        match loss {
            LossReason::Released => Self::Released,
            loss => Self::Lost(loss),
        }
    }
}

/// What a locker has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that wait for an answer now.
    pub waiting: u64,
    /// Calls that were granted a lock.
    pub granted: u64,
    /// Calls that ended because another client held the lock.
    pub busy: u64,
    /// Calls that ended with another error.
    pub failed: u64,
    /// Calls that ended because the locker was closed.
    pub closed: u64,
    /// Calls whose future was dropped.
    pub dropped: u64,
    /// Holds of now.
    pub held: u64,
    /// The age of the oldest hold of now. `None`: there is none, or each is younger than a third of its lease.
    pub oldest: Option<Duration>,
    /// Holds that were released, or handed off inside the process.
    pub released: u64,
    /// Holds that were lost, also by their `hold_at_most` limit.
    pub lost: u64,
    /// Renewals by the watchdog that the nodes confirmed.
    pub renewed: u64,
    /// Renewals by the watchdog that the nodes did not confirm in time.
    pub not_renewed: u64,
}

/// What a program does with events.
#[derive(Clone)]
pub struct EventHandler(Arc<Handler>);

struct Handler {
    handle: Box<dyn Fn(&Event<'_>) + Send + Sync>,
    /// Set by a handler that panicked: it hears nothing more.
    panicked: AtomicBool,
}

impl EventHandler {
    /// Calls `handle` with each event, on the thread on which it happens.
    pub fn new(handle: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        let (handle, panicked) = (Box::new(handle), AtomicBool::new(false));
        Self(Arc::new(Handler { handle, panicked }))
    }

    /// Whether it hears events: not after it panicked.
    pub fn hears(&self) -> bool {
        !self.0.panicked.load(Ordering::Relaxed)
    }

    /// Passes an event to the program.
    pub fn handle(&self, event: &Event<'_>) {
        if !self.hears() {
            return;
        }
        // A panic must not unwind through the watchdog, which would then renew nothing, nor through the
        // task of a connection.
        if catch_unwind(AssertUnwindSafe(|| (self.0.handle)(event))).is_err() {
            self.0.panicked.store(true, Ordering::Relaxed);
            tracing::error!("the event handler panicked: it is not called any more");
        }
    }
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}
