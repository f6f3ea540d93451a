use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Clock, Instant, Leased, Loss, Renewal, Renewer, Standing};

use super::handover::Series;
use super::owners::Place;
use super::turns::{Turn, Turns};
use crate::{Fence, Held, Lane, Lessor, Lost, Name, Nonce, Term};

/// One granted lease, shared by the guards of its owner (SAFETY.md G8).
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: u64,
    pub(super) name: Name,
    pub(super) nonce: Nonce,
    pub(super) fence: Fence,
    pub(super) series: Series,
    pub(super) standing: Standing,
    /// As its holder asked: whoever enters it again cannot ask for another.
    pub(super) hold_at_most: Option<Duration>,
    /// How many guards share it. At zero it is being given back.
    pub(super) holds: AtomicU32,
    /// Let go when the name may be asked for again by others in this process.
    pub(super) turn: Mutex<Option<Turn>>,
    /// Kept beyond a loss, so that its owner is told of it and never enters anew by mistake.
    pub(super) place: OnceLock<Box<Place>>,
}

impl Lease {
    /// Shares it once more; `None` if its last guard is just giving it back.
    pub(super) fn join(&self) -> Option<u32> {
        let more = |holds: u32| (holds > 0).then(|| holds.saturating_add(1));
        self.holds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|old| old + 1)
    }

    /// One guard less; how many are left.
    pub(super) fn leave(&self) -> u32 {
        self.holds.fetch_sub(1, Ordering::SeqCst) - 1
    }

    /// What to ask the nodes for: `ttl`, never beyond the hold limit.
    pub(super) fn term(&self, ttl: Duration) -> Term {
        Term {
            name: self.name.clone(),
            nonce: self.nonce,
            ttl,
            holds: self.holds.load(Ordering::SeqCst),
        }
    }

    /// What is left of a lease at `now` when the hold limit is near.
    pub(super) fn ttl(&self, now: Instant) -> Duration {
        let Terms { lease, hold_until, .. } = self.standing.terms();
        let limit = hold_until.map_or(Duration::MAX, |limit| limit.since(now));
        lease.min(limit)
    }

    /// Since when the nodes hold it, and until when they surely do.
    pub(super) fn held(&self) -> Held {
        Held { since: self.series.since, until: self.standing.until() }
    }

    /// For whom it is held, so that this owner finds it again.
    pub(super) fn settle(&self, place: Option<Place>) {
        if let Some(place) = place {
            // The first and only one: a lease has one owner.
            let _ = self.place.set(Box::new(place));
        }
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        self.standing.check().map_err(|why| self.lost(why))
    }

    pub(super) fn check_at(&self, now: Instant) -> Result<(), Lost> {
        self.standing.check_at(now).map_err(|why| self.lost(why))
    }

    pub(super) fn lost(&self, why: Loss) -> Lost {
        Lost::new(self.name.clone(), why)
    }

    /// Lets the next in this process take its turn.
    pub(super) fn rise(&self) {
        drop(self.take_turn());
    }

    pub(super) fn take_turn(&self) -> Option<Turn> {
        self.turn().take()
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leased for Lease {
    fn id(&self) -> u64 {
        self.id
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// Renews and releases leases for the watchdog, on its own connections.
pub(super) struct Keep {
    pub(super) lessor: Arc<dyn Lessor>,
    pub(super) turns: Turns,
    pub(super) clock: Clock,
}

impl Renewer for Keep {
    type Lease = Lease;

    fn renew(
        &self,
        batch: Vec<(Arc<Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>> {
        let terms = batch.iter().map(|(lease, ttl)| lease.term(*ttl)).collect();
        self.lessor.renew(terms, Lane::Keep)
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.lessor.settle(Lane::Keep)
    }

    fn tend(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.lessor.tend()
    }

    fn release(&self, lease: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (turns, clock) = (self.turns.clone(), self.clock.clone());
        let contended = turns.is_contended(&lease.name, &clock);
        let term = lease.term(lease.standing.terms().lease);
        let released = self.lessor.release(term, lease.held(), Lane::Keep, contended);
        Box::pin(async move {
            match released.await {
                Ok(freed) => turns.released(&lease.name, freed.woke, &clock),
                Err(error) => {
                    tracing::debug!(name = %lease.name, %error, "not released: its lease will end");
                }
            }
            lease.rise();
        })
    }
}
