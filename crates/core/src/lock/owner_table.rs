use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::lease::Lease;
use quorumlock_protocol::{Claim, Owner};

/// Which owner holds which lease: a second request of the same owner finds the lease to share here.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerTable(Arc<Mutex<Owners>>);

/// The claims of each owner, by its id.
type Owners = HashMap<u64, HashMap<Claim, Arc<SharedLease>>>;

/// What an owner holds of one claim.
#[derive(Debug, Default)]
pub(super) struct SharedLease {
    /// Locked while one task of the owner acquires, so that its other tasks share the lease.
    pub(super) acquiring: tokio::sync::Mutex<()>,
    /// One lease. Of readers also that of a writer which went on as a reader while another task of the
    /// owner asked to read.
    leases: Mutex<Vec<Weak<Lease>>>,
}

/// An owner's entry for one claim. The entry is removed when its last slot is dropped.
#[derive(Debug)]
pub(super) struct OwnerSlot {
    table: OwnerTable,
    owner: u64,
    claim: Claim,
    lease: Option<Arc<SharedLease>>,
}

impl OwnerTable {
    pub(super) fn slot(&self, owner: &Owner, claim: &Claim) -> OwnerSlot {
        self.slot_of(owner.id(), claim)
    }

    fn slot_of(&self, owner: u64, claim: &Claim) -> OwnerSlot {
        let mut owners = self.owners();
        let lease = owners.entry(owner).or_default().entry(claim.clone()).or_default().clone();
        OwnerSlot { table: self.clone(), owner, claim: claim.clone(), lease: Some(lease) }
    }

    /// The lease of `claim` that guards of `owner` hold.
    pub(super) fn held_by(&self, owner: &Owner, claim: &Claim) -> Option<Arc<Lease>> {
        self.owners().get(&owner.id())?.get(claim)?.held().pop()
    }

    /// Another claim of the same layout that guards of `owner` hold, and that excludes `claim`.
    pub(super) fn held_against(&self, owner: &Owner, claim: &Claim) -> Option<Claim> {
        let owners = self.owners();
        let mut claims = owners.get(&owner.id())?.iter();
        let against = |held: &Claim| {
            held != claim && held.is_read_write() == claim.is_read_write() && held.excludes(claim)
        };
        let held = claims.find(|(held, lease)| against(held) && !lease.held().is_empty());
        held.map(|(held, _)| held.clone())
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedLease {
    /// The leases that have guards.
    pub(super) fn held(&self) -> Vec<Arc<Lease>> {
        let leases = self.leases().clone();
        let live = leases.iter().filter_map(Weak::upgrade);
        live.filter(|lease| lease.has_guards()).collect()
    }

    /// A guard of the owner holds `lease`.
    pub(super) fn add(&self, lease: &Arc<Lease>) {
        let mut leases = self.leases();
        leases.retain(|lease| lease.strong_count() > 0);
        leases.push(Arc::downgrade(lease));
    }

    fn leases(&self) -> MutexGuard<'_, Vec<Weak<Lease>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnerSlot {
    pub(super) fn lease(&self) -> Arc<SharedLease> {
        self.lease.clone().unwrap_or_default()
    }

    /// The slot of the same owner for `lease`, which is its hold from now on.
    pub(super) fn moved_to(self, lease: &Arc<Lease>) -> Self {
        let slot = self.table.slot_of(self.owner, &lease.claim);
        slot.lease().add(lease);
        slot
    }
}

impl Drop for OwnerSlot {
    fn drop(&mut self) {
        let mut owners = self.table.owners();
        self.lease = None;
        let Some(claims) = owners.get_mut(&self.owner) else { return };
        if claims.get(&self.claim).is_some_and(|lease| Arc::strong_count(lease) == 1) {
            claims.remove(&self.claim);
        }
        if claims.is_empty() {
            owners.remove(&self.owner);
        }
    }
}
