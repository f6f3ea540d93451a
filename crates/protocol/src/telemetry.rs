//! What happens to locks, for a program's metrics and logs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::LossReason;

/// Something that happened to a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call asks for a lock. Exactly one `CallEnded` follows.
    CallBegan {
        /// What it asks for.
        lock: LockId<'a>,
    },
    /// A call has its answer, its future was dropped, or the locker was closed.
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
    /// The caller dropped the future, or the locker was closed.
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
    /// Calls without an answer: the future was dropped, or the locker was closed.
    pub dropped: u64,
    /// Holds of now.
    pub held: u64,
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
pub struct EventHandler(Arc<Handle>);

type Handle = dyn Fn(&Event<'_>) + Send + Sync;

impl EventHandler {
    /// Calls `handle` with each event, on the thread on which it happens.
    pub fn new(handle: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle))
    }

    /// Passes an event to the program.
    pub fn handle(&self, event: &Event<'_>) {
        (self.0)(event);
    }
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}
