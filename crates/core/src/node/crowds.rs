use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use crate::Name;

/// Names that others were lately seen to wait for, on one node. Advice, never safety: a release of
/// such a name wakes the next waiter in the same step.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    /// And whether our last release of it woke one of them.
    names: Mutex<HashMap<Name, bool>>,
    /// Spares the common case the lock.
    any: AtomicBool,
}

/// Beyond it all are forgotten, and seen again.
const MOST: usize = 1_024;

impl Crowds {
    pub(super) fn wait_for(&self, name: &Name) -> bool {
        self.any.load(Ordering::Acquire) && self.names().contains_key(name)
    }

    /// Whether it is waited for, and our last release of it woke somebody.
    pub(super) fn were_woken(&self, name: &Name) -> bool {
        self.any.load(Ordering::Acquire) && self.names().get(name) == Some(&true)
    }

    /// Others were seen to wait for it.
    pub(super) fn seen(&self, name: &Name) {
        self.add(name, false);
    }

    /// What a release of ours came to.
    pub(super) fn released(&self, name: &Name, woke: bool) {
        if woke {
            self.add(name, true);
        } else if self.any.load(Ordering::Acquire) {
            let mut names = self.names();
            names.remove(name);
            self.any.store(!names.is_empty(), Ordering::Release);
        }
    }

    fn add(&self, name: &Name, woken: bool) {
        let mut names = self.names();
        if names.len() >= MOST {
            names.clear();
        }
        *names.entry(name.clone()).or_default() |= woken;
        self.any.store(true, Ordering::Release);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, bool>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_waited_for_until_nobody_is_seen_to() {
        let (crowds, name) = (Crowds::default(), Name::new("x").unwrap());
        assert!(!crowds.wait_for(&name));
        crowds.seen(&name);
        assert!(crowds.wait_for(&name) && !crowds.were_woken(&name));
        assert!(!crowds.wait_for(&Name::new("y").unwrap()));
        crowds.released(&name, true);
        crowds.seen(&name);
        assert!(crowds.wait_for(&name) && crowds.were_woken(&name));
        crowds.released(&name, false);
        assert!(!crowds.wait_for(&name) && !crowds.were_woken(&name));
    }

    #[test]
    fn it_has_a_bound() {
        let crowds = Crowds::default();
        for i in 0..=MOST {
            crowds.seen(&Name::new(&format!("x{i}")).unwrap());
        }
        assert_eq!(crowds.names().len(), 1);
    }
}
