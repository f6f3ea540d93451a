use std::collections::BTreeMap;
use std::sync::Arc;

use quorumlock_protocol::Instant;

/// One hold of a lock, as recorded by its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock's name.
    pub name: Arc<str>,
    /// The task that held it.
    pub who: Who,
    /// When the task asked for it.
    pub asked: Instant,
    /// When the holder learned of the grant, which is not before the grant.
    pub granted: Instant,
    /// When the holder stopped its work: before it sent the release, or when it was notified of the
    /// loss.
    pub released: Instant,
    /// The end of the lease's validity, as the holder knew it at `released`.
    pub valid_until: Instant,
    /// The fencing token.
    pub token: u64,
}

/// A task that locks, and its process (or the `Locker` that stands for a process).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The process.
    pub locker: usize,
    /// The number of the task in its process.
    pub task: usize,
}

/// A task asked for a lock and did not get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock's name.
    pub name: Arc<str>,
    /// When the task asked for it.
    pub asked: Instant,
    /// When the task gave up.
    pub ended: Instant,
}

impl Hold {
    /// The end of the time in which the holder believed that it held the lock, and acted on it.
    #[must_use]
    pub fn believed_until(&self) -> Instant {
        self.released.min(self.valid_until)
    }
}

/// The holds of each name, in the order of their grants.
pub(super) fn by_name(holds: &[Hold]) -> impl Iterator<Item = Vec<&Hold>> {
    let mut names = BTreeMap::<&str, Vec<&Hold>>::new();
    for hold in holds {
        names.entry(&hold.name).or_default().push(hold);
    }
    names.into_values().map(|mut holds| {
        holds.sort_by_key(|hold| hold.granted);
        holds
    })
}
