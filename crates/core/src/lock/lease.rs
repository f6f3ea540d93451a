use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use quorumlock_protocol::LeaseTiming;
use quorumlock_protocol::{Instant, LossReason};
use quorumlock_watchdog::{Clock, LeaseState, Renewal, Renewer, WatchedLease};

use super::local_handoff::HandoffChain;
use super::local_queue::{LocalPermit, LocalQueues};
use super::owner_table::OwnerSlot;
use crate::Lessor;
use quorumlock_protocol::{Fence, HeldInterval, Hints, Lane, LeaseRequest, Lost, Name, Nonce};

/// One granted lease, shared by the guards of its owner (SAFETY.md G8).
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: u64,
    pub(super) name: Name,
    pub(super) nonce: Nonce,
    pub(super) fence: Fence,
    pub(super) chain: HandoffChain,
    pub(super) standing: LeaseState,
    /// The limit that the first guard asked for. A re-entry cannot change it.
    pub(super) hold_at_most: Option<Duration>,
    /// How many guards share it. At zero the lease is being released.
    pub(super) holds: AtomicU32,
    /// Dropped when another task of this process may contend for the name.
    pub(super) permit: Mutex<Option<LocalPermit>>,
    /// Kept after a loss, so that its owner learns of the loss and does not acquire anew by
    /// mistake.
    pub(super) owner_slot: OnceLock<Box<OwnerSlot>>,
}

impl Lease {
    /// Adds a guard and returns the new count; `None` if the last guard is already releasing the
    /// lease.
    pub(super) fn add_guard(&self) -> Option<u32> {
        let more = |holds: u32| (holds > 0).then(|| holds.saturating_add(1));
        self.holds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|old| old + 1)
    }

    /// Removes a guard and returns how many are left.
    pub(super) fn remove_guard(&self) -> u32 {
        self.holds.fetch_sub(1, Ordering::SeqCst) - 1
    }

    /// The request for a lease of `ttl`, with the current number of holds.
    pub(super) fn request(&self, ttl: Duration) -> LeaseRequest {
        LeaseRequest {
            name: self.name.clone(),
            nonce: self.nonce,
            ttl,
            holds: self.holds.load(Ordering::SeqCst),
        }
    }

    /// The lease to ask for at `now`: the full lease, but never beyond the hold limit.
    pub(super) fn ttl(&self, now: Instant) -> Duration {
        let LeaseTiming { lease, hold_until, .. } = self.standing.timing();
        let limit = hold_until.map_or(Duration::MAX, |limit| limit.since(now));
        lease.min(limit)
    }

    /// Since when the nodes hold the lease, and until when they certainly do.
    pub(super) fn held_interval(&self) -> HeldInterval {
        HeldInterval { since: self.chain.since, until: self.standing.until() }
    }

    /// Records the owner's slot, so that the owner finds the lease again.
    pub(super) fn bind_owner(&self, place: Option<OwnerSlot>) {
        if let Some(place) = place {
            // Never set before: a lease has one owner.
            let _ = self.owner_slot.set(Box::new(place));
        }
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        self.standing.check().map_err(|why| self.lost(why))
    }

    pub(super) fn check_at(&self, now: Instant) -> Result<(), Lost> {
        self.standing.check_at(now).map_err(|why| self.lost(why))
    }

    pub(super) fn lost(&self, why: LossReason) -> Lost {
        Lost::new(self.name.clone(), why)
    }

    /// Passes the permit to the next local waiter.
    pub(super) fn release_permit(&self) {
        drop(self.take_permit());
    }

    pub(super) fn take_permit(&self) -> Option<LocalPermit> {
        self.permit().take()
    }

    pub(super) fn permit(&self) -> MutexGuard<'_, Option<LocalPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedLease for Lease {
    fn id(&self) -> u64 {
        self.id
    }

    fn state(&self) -> &LeaseState {
        &self.standing
    }
}

/// Renews and releases leases for the watchdog, on the watchdog's own connections.
pub(super) struct LeaseRenewer {
    pub(super) lessor: Arc<dyn Lessor>,
    pub(super) local_queues: LocalQueues,
    pub(super) clock: Clock,
}

impl Renewer for LeaseRenewer {
    type Lease = Lease;

    fn renew(
        &self,
        batch: Vec<(Arc<Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>> {
        let requests = batch.iter().map(|(lease, ttl)| lease.request(*ttl)).collect();
        self.lessor.renew(requests, Lane::Watchdog)
    }

    fn drain(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.lessor.drain(Lane::Watchdog)
    }

    fn run_background(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.lessor.run_background()
    }

    fn release(&self, lease: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (queues, clock) = (self.local_queues.clone(), self.clock.clone());
        let hints = Hints::contended(queues.is_contended(&lease.name, &clock));
        let request = lease.request(lease.standing.timing().lease);
        let released = self.lessor.release(request, lease.held_interval(), Lane::Watchdog, hints);
        Box::pin(async move {
            match released.await {
                Ok(freed) => queues.released(&lease.name, freed.notified, &clock),
                Err(error) => {
                    tracing::debug!(name = %lease.name, %error, "not released: its lease will end");
                }
            }
            lease.release_permit();
        })
    }
}
