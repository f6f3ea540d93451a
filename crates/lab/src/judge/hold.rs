use std::collections::BTreeMap;
use std::sync::Arc;

use quorumlock_protocol::Instant;

use crate::history::{SLOT, TOGETHER};

/// One hold of a lock, as recorded by its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock's name. A slot of permits is `NAME#SLOT`, names held together are `NAME+NAME`.
    pub name: Arc<str>,
    /// How many may hold the name at once: 1, or the number of permits.
    pub permits: u32,
    /// Whether it is held for reading. Readers of one name may hold together.
    pub reads: bool,
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
    /// The process of the task.
    pub locker: usize,
    /// When the task asked for it.
    pub asked: Instant,
    /// When the task gave up.
    pub ended: Instant,
}

impl Hold {
    /// The name that the holder asked for: without the slot.
    #[must_use]
    pub fn asked_name(&self) -> &str {
        asked_name(&self.name)
    }

    /// Whether it is a hold of several names.
    pub(super) fn is_set(&self) -> bool {
        self.name.contains(TOGETHER)
    }

    /// Whether both may hold one name at the same time: both read.
    #[must_use]
    pub fn shares_with(&self, other: &Self) -> bool {
        self.reads && other.reads
    }

    /// Whether it is a hold of one slot of permits.
    pub(super) fn has_slot(&self) -> bool {
        self.name.contains(SLOT)
    }

    /// The end of the time in which the holder believed that it held the lock, and acted on it.
    #[must_use]
    pub fn believed_until(&self) -> Instant {
        self.released.min(self.valid_until)
    }
}

fn asked_name(held: &str) -> &str {
    held.split_once(SLOT).map_or(held, |(name, _)| name)
}

/// The holds of each name, in the order of their grants. Each slot of permits is a name. A hold of
/// several names is one of each.
pub(super) fn by_name(holds: &[Hold]) -> impl Iterator<Item = Vec<&Hold>> {
    grouped(holds, |name| name)
}

/// As [`by_name`], and all slots of permits are one name.
pub(super) fn by_asked_name(holds: &[Hold]) -> impl Iterator<Item = Vec<&Hold>> {
    grouped(holds, asked_name)
}

fn grouped(holds: &[Hold], name: fn(&str) -> &str) -> impl Iterator<Item = Vec<&Hold>> {
    let mut names = BTreeMap::<&str, Vec<&Hold>>::new();
    for hold in holds {
        for held in hold.name.split(TOGETHER) {
            names.entry(name(held)).or_default().push(hold);
        }
    }
    names.into_values().map(|mut holds| {
        holds.sort_by_key(|hold| hold.granted);
        holds
    })
}
