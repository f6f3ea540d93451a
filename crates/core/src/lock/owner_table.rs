use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::lease::Lease;
use quorumlock_protocol::{Claim, Owner};

/// Which owner holds which lease: a second request of the same owner finds the lease to share here.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerTable(Arc<Mutex<HashMap<Key, SharedLease>>>);

type Key = (u64, Claim);
/// Locked while one task of the owner acquires, so that its other tasks share the lease.
type SharedLease = Arc<tokio::sync::Mutex<Weak<Lease>>>;

/// An owner's entry for one claim. The entry is removed when its last slot is dropped.
#[derive(Debug)]
pub(super) struct OwnerSlot {
    table: OwnerTable,
    key: Key,
    lease: Option<SharedLease>,
}

impl OwnerTable {
    pub(super) fn slot(&self, owner: &Owner, claim: &Claim) -> OwnerSlot {
        let key = (owner.id(), claim.clone());
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = places.entry(key.clone()).or_default().clone();
        OwnerSlot { table: self.clone(), key, lease: Some(held) }
    }
}

impl OwnerSlot {
    pub(super) fn lease(&self) -> SharedLease {
        self.lease.clone().unwrap_or_default()
    }
}

impl Drop for OwnerSlot {
    fn drop(&mut self) {
        let mut places = self.table.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.lease = None;
        if places.get(&self.key).is_some_and(|held| Arc::strong_count(held) == 1) {
            places.remove(&self.key);
        }
    }
}
