use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{
    Claim, FencingToken, HeldInterval, Instant, LeaseRequest, LeaseTiming, LossReason, Lost, Nonce,
};
use quorumlock_watchdog::{Clock, LeaseState, WatchedLease};

use super::local_handoff::HandoffChain;
use super::local_queue::{LocalPermit, Waiter};

/// One granted lease, shared by the guards of its owner (SAFETY.md G8).
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: u64,
    pub(super) claim: Claim,
    pub(super) nonce: Nonce,
    pub(super) token: FencingToken,
    pub(super) chain: HandoffChain,
    pub(super) state: LeaseState,
    /// When the hold began: when it was asked for.
    pub(super) begun: Instant,
    /// Whether its end was told.
    pub(super) told: AtomicBool,
    /// Whether it was told that the hold is at risk, and not yet that it no longer is.
    pub(super) told_at_risk: AtomicBool,
    /// Whether a renewal was sent.
    pub(super) renewed: AtomicBool,
    /// The limit that the first guard asked for. A re-entry cannot change it.
    pub(super) hold_at_most: Option<Duration>,
    /// What the nodes tell of this hold; `None`: the locker's label.
    pub(super) label: Option<Arc<str>>,
    /// How many guards share it. At zero the lease is being released.
    pub(super) holds: AtomicU32,
    /// Dropped when another task of this process may contend for the name.
    pub(super) permit: Mutex<Option<LocalPermit<Self>>>,
}

impl Lease {
    /// A lease of one guard, without a limit, a label and a permit.
    pub(super) fn new(
        id: u64,
        (claim, nonce): (Claim, Nonce),
        (chain, token): (HandoffChain, FencingToken),
        state: LeaseState,
        begun: Instant,
    ) -> Self {
        Self {
            id,
            claim,
            nonce,
            token,
            chain,
            state,
            begun,
            told: AtomicBool::new(false),
            told_at_risk: AtomicBool::new(false),
            renewed: AtomicBool::new(false),
            hold_at_most: None,
            label: None,
            holds: AtomicU32::new(1),
            permit: Mutex::new(None),
        }
    }

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

    /// Whether guards share it.
    pub(super) fn has_guards(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }

    /// Removes the only guard, so that nobody adds one.
    ///
    /// # Errors
    /// How many guards there are, if there are several.
    pub(super) fn remove_only_guard(&self) -> Result<(), u32> {
        let removed = self.holds.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst);
        removed.map(drop)
    }

    /// Gives the guard back that [`Self::remove_only_guard`] removed.
    pub(super) fn restore_guard(&self) {
        self.holds.store(1, Ordering::SeqCst);
    }

    /// The request for a lease of `ttl`, with the current number of holds.
    pub(super) fn request(&self, ttl: Duration) -> LeaseRequest {
        LeaseRequest {
            claim: self.claim.clone(),
            nonce: self.nonce,
            ttl,
            holds: self.holds.load(Ordering::SeqCst),
            label: self.label.clone(),
        }
    }

    /// The lease to ask for at `now`: the full lease, but never beyond the hold limit.
    pub(super) fn ttl(&self, now: Instant) -> Duration {
        self.state.timing().longest(now)
    }

    /// Since when the nodes hold the lease, and until when they certainly do.
    pub(super) fn held_interval(&self) -> HeldInterval {
        HeldInterval { since: self.chain.since, until: self.state.until() }
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        self.state.check().map_err(|why| self.lost(why))
    }

    pub(super) fn check_at(&self, now: Instant) -> Result<(), Lost> {
        self.state.check_at(now).map_err(|why| self.lost(why))
    }

    pub(super) fn lost(&self, why: LossReason) -> Lost {
        Lost::new(self.claim.label(), why)
    }

    /// The claim whose calls of this process wait in one queue with those for this lease.
    pub(super) fn local_queue(&self) -> Claim {
        self.claim.any_of_slots()
    }

    /// Passes the permit to the next local waiter.
    pub(super) fn release_permit(&self) {
        drop(self.take_permit());
    }

    pub(super) fn take_permit(&self) -> Option<LocalPermit<Self>> {
        self.permit().take()
    }

    /// Whether it may pass to the next local waiter at `now`, if it is valid until `until`.
    pub(super) fn can_hand_off(&self, until: Instant, now: Instant) -> bool {
        self.chain.may_pass(self.token, until, now)
    }

    /// The next local waiter, if it can take over a lease of `ttl`, and the permit that passes to
    /// it.
    pub(super) fn next_waiter(&self, ttl: Duration) -> Option<(LocalPermit<Self>, Waiter<Self>)> {
        let mut permit = self.permit();
        let next = permit.as_ref()?.next_waiter(ttl, self.label.as_deref())?;
        permit.take().map(|permit| (permit, next))
    }

    /// The token of a holder in another process, and the last one of the block.
    pub(super) fn tokens_for_next(&self) -> (FencingToken, FencingToken) {
        let (chain, next) = self.chain.next(self.token);
        (next.min(chain.last_token), chain.last_token)
    }

    /// The same lease on the nodes, for the next holder: with the next token and a lease state of
    /// its own. The permit is still to be passed to it.
    pub(super) fn successor(
        &self,
        timing: LeaseTiming,
        hold_at_most: Option<Duration>,
        now: Instant,
        clock: &Clock,
    ) -> Self {
        let (tokens, state) = (self.chain.next(self.token), LeaseState::new(clock.clone(), timing));
        let names = (self.claim.clone(), self.nonce);
        let label = self.label.clone();
        Self { hold_at_most, label, ..Self::new(self.id, names, tokens, state, now) }
    }

    /// The same hold of a read-write lock, for reading. It excludes less, and keeps its token.
    pub(super) fn reader(&self, until: Instant, now: Instant, clock: &Clock) -> Arc<Self> {
        let timing = LeaseTiming { until, ..self.state.timing() };
        let names = (Claim::read(self.claim.name().clone()), self.nonce);
        let state = LeaseState::new(clock.clone(), timing);
        Arc::new(Self {
            hold_at_most: self.hold_at_most,
            label: self.label.clone(),
            ..Self::new(self.id, names, (self.chain, self.token), state, now)
        })
    }

    pub(super) fn permit(&self) -> MutexGuard<'_, Option<LocalPermit<Self>>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedLease for Lease {
    fn id(&self) -> u64 {
        self.id
    }

    fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn state(&self) -> &LeaseState {
        &self.state
    }
}
