use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Name;

/// Names that others were lately seen to wait for, on one node. Advice, never safety: a release of
/// such a name wakes the next waiter in the same step.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    names: Mutex<HashSet<Name>>,
    /// Spares the common case the lock.
    any: AtomicBool,
}

/// Beyond it all are forgotten, and seen again.
const MOST: usize = 1_024;

impl Crowds {
    pub(super) fn wait_for(&self, name: &Name) -> bool {
        self.any.load(Ordering::Acquire) && self.names().contains(name)
    }

    pub(super) fn note(&self, name: &Name, waited_for: bool) {
        if !waited_for && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut names = self.names();
        if waited_for {
            if names.len() >= MOST {
                names.clear();
            }
            names.insert(name.clone());
        } else {
            names.remove(name);
        }
        self.any.store(!names.is_empty(), Ordering::Release);
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
        let (crowds, name) = (Crowds::default(), Name::new("x").unwrap());
        assert!(!crowds.wait_for(&name));
        crowds.note(&name, true);
        assert!(crowds.wait_for(&name));
        assert!(!crowds.wait_for(&Name::new("y").unwrap()));
        crowds.note(&name, false);
        assert!(!crowds.wait_for(&name));
    }

    #[test]
    fn it_has_a_bound() {
        let crowds = Crowds::default();
        for i in 0..=MOST {
            crowds.note(&Name::new(&format!("x{i}")).unwrap(), true);
        }
        assert_eq!(crowds.names().len(), 1);
    }
}
