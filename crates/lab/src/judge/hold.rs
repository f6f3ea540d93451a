use std::collections::BTreeMap;
use std::sync::Arc;

use quorumlock_core::Instant;

/// One hold of a lock, as its holder saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock's name.
    pub name: Arc<str>,
    /// Who held it.
    pub who: Who,
    /// When it was asked for.
    pub asked: Instant,
    /// When the holder learned that the lock was its own: not before it was.
    pub granted: Instant,
    /// When the holder stopped its work: before it sent the release, or when it was told of loss.
    pub released: Instant,
    /// Until when the holder could believe in the lock, as it knew at `released`.
    pub valid_until: Instant,
    /// The fencing token.
    pub token: u64,
}

/// A task that locks, and the process that it runs in (or the `Locker` that stands for one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The process.
    pub locker: usize,
    /// The task, unique among those of all processes.
    pub task: usize,
}

/// Somebody wanted a lock and did not get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock's name.
    pub name: Arc<str>,
    /// When it was asked for.
    pub asked: Instant,
    /// When it was given up.
    pub ended: Instant,
}

impl Hold {
    /// The end of the time in which the holder believed that the lock was its own, and acted on it.
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
