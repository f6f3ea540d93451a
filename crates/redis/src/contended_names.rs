use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashSet;

use quorumlock_protocol::Name;
use quorumlock_protocol::waiting::TUNING;

/// Names for which other clients were lately seen to wait on one node; all slots of permits are one,
/// that of their queue. Advice, never safety: a
/// release of such a name notifies the next waiter in the same step.
#[derive(Debug, Default)]
pub(super) struct ContendedNames {
    names: Mutex<HashSet<Name>>,
    /// False if there are no names: then the mutex is not locked, which is the usual case.
    any: AtomicBool,
}

/// At this size all names are forgotten. A name that is still contended is seen again.
const MAX_NAMES: usize = TUNING.max_remembered;

impl ContendedNames {
    pub(super) fn wait_for(&self, name: &Name) -> bool {
        self.any.load(Ordering::Acquire) && self.names().contains(&name.queue())
    }

    /// Records that other clients wait for the name.
    pub(super) fn seen(&self, name: &Name) {
        let mut names = self.names();
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(name.queue());
        self.any.store(true, Ordering::Release);
    }

    /// Records whether a release by this locker notified anybody.
    pub(super) fn released(&self, name: &Name, notified: bool) {
        if notified {
            self.seen(name);
        } else if self.any.load(Ordering::Acquire) {
            let mut names = self.names();
            names.remove(&name.queue());
            self.any.store(!names.is_empty(), Ordering::Release);
        }
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_waited_for_until_nobody_is_seen_to() {
        let (contended, name) = (ContendedNames::default(), Name::new("x").unwrap());
        assert!(!contended.wait_for(&name));
        contended.seen(&name);
        assert!(contended.wait_for(&name));
        assert!(!contended.wait_for(&Name::new("y").unwrap()));
        contended.released(&name, true);
        contended.seen(&name);
        assert!(contended.wait_for(&name));
        contended.released(&name, false);
        assert!(!contended.wait_for(&name));
    }

    #[test]
    fn it_has_a_bound() {
        let contended = ContendedNames::default();
        for i in 0..=MAX_NAMES {
            contended.seen(&Name::new(&format!("x{i}")).unwrap());
        }
        assert_eq!(contended.names().len(), 1);
    }
}
