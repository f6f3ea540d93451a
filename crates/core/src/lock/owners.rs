use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::lease::Lease;
use crate::{Name, Owner};

/// Which owner holds what: how a second lock of the same owner finds the lease to share.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners(Arc<Mutex<HashMap<Key, Held>>>);

type Key = (u64, Name);
/// Locked while one task of the owner acquires, so that the others share what it gets.
type Held = Arc<tokio::sync::Mutex<Weak<Lease>>>;

/// An owner's place for one name; it leaves nothing behind when the last one is dropped.
#[derive(Debug)]
pub(super) struct Place {
    owners: Owners,
    key: Key,
    held: Option<Held>,
}

impl Owners {
    pub(super) fn place(&self, owner: &Owner, name: &Name) -> Place {
        let key = (owner.id(), name.clone());
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = places.entry(key.clone()).or_default().clone();
        Place { owners: self.clone(), key, held: Some(held) }
    }
}

impl Place {
    pub(super) fn owner(&self) -> Owner {
        Owner::of(self.key.0)
    }

    pub(super) fn held(&self) -> Held {
        self.held.clone().unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.owners.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held = None;
        if places.get(&self.key).is_some_and(|held| Arc::strong_count(held) == 1) {
            places.remove(&self.key);
        }
    }
}
