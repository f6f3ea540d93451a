//! One call of `lock` or `try_lock` on its way to a guard.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::acquire_loop::AcquireLoop;
use super::guard::Guard;
use super::lease::Lease;
use super::local_queue::{LeaseWish, LocalHandoff};
use super::locker::Inner;
use super::owner_table::OwnerSlot;
use quorumlock_protocol::{
    Busy, ConfigError, Error, HandoffOffer, LeaseRequest, Name, NodeProblem, Settings,
};

/// Which lock is wanted, and with which lease.
pub(super) struct LockSpec {
    pub(super) name: Name,
    pub(super) lease: Duration,
    /// The lease that the caller set; `None` if `lease` is the locker's default.
    pub(super) explicit_lease: Option<Duration>,
    pub(super) hold_at_most: Option<Duration>,
}

/// One call of `lock` or `try_lock`.
pub(super) struct Acquisition {
    pub(super) inner: Arc<Inner>,
    pub(super) spec: LockSpec,
    pub(super) deadline: Option<Instant>,
    /// Whether the call does not wait for a holder (`try_lock`).
    pub(super) once: bool,
    /// Whether the call fails at the first attempt that too few nodes answer.
    pub(super) fail_fast: bool,
}

impl Acquisition {
    /// Acquires for an owner. One task of the owner acquires at a time; its other tasks then share
    /// the lease.
    pub(super) async fn acquire_for_owner(&self, place: OwnerSlot) -> Result<Guard, Error> {
        let held = place.lease();
        let mut held = self.in_time(held.lock()).await?;
        if let Some(lease) = held.upgrade()
            && let Some(guard) = self.re_enter(lease).await?
        {
            return Ok(guard);
        }
        let guard = self.run(Some(place)).await?;
        *held = Arc::downgrade(guard.lease());
        Ok(guard)
    }

    async fn re_enter(&self, lease: Arc<Lease>) -> Result<Option<Guard>, Error> {
        if lease.add_guard().is_none() {
            return Ok(None);
        }
        let guard = Guard::new(self.inner.clone(), lease.clone());
        // A lost lease is an error and never a silent new acquisition: the work of the outer hold
        // is already unprotected.
        lease.check()?;
        self.spec.fits(&lease)?;
        guard.publish_holds().await?;
        Ok(Some(guard))
    }

    /// Waits for the local permit, then asks the nodes until they grant the lock or the call's
    /// deadline passes. Or receives the lease from a holder in this process.
    pub(super) async fn run(&self, slot: Option<OwnerSlot>) -> Result<Guard, Error> {
        let permit = match self.permit().await? {
            LocalHandoff::Permit(permit) => permit,
            LocalHandoff::Guard(guard) => {
                guard.lease().bind_owner(slot);
                return Ok(guard);
            }
        };
        // `now` reads all clocks, so time missed before this is counted here. Otherwise a lease
        // that counts from an early instant would end earlier by it.
        AcquireLoop::new(self, permit, self.inner.clock.now()).run(slot).await
    }

    /// The lease request of one attempt. Its nonce is fresh, so that the replies of two attempts
    /// never mix.
    pub(super) fn lease_request(&self) -> Result<LeaseRequest, Error> {
        let nonce = self.inner.entropy.nonce()?;
        Ok(LeaseRequest { name: self.spec.name.clone(), nonce, ttl: self.spec.ttl(), holds: 1 })
    }

    /// The lease that this call accepts by handoff, if the lessor supports handoff, and the bound
    /// on the node's clock drift.
    pub(super) fn handoff_offer(&self) -> Option<(HandoffOffer, f64)> {
        let Settings { fencing, max_clock_drift, .. } = self.inner.settings;
        let queue = self.inner.lessor.wait_queue()?;
        let offer = || HandoffOffer { ttl: self.spec.ttl(), fencing };
        queue.supports_handoff().then(|| (offer(), max_clock_drift))
    }

    /// Waits for the local permit, or for a holder in this process that hands its lease off.
    async fn permit(&self) -> Result<LocalHandoff, Error> {
        let queues = &self.inner.local_queues;
        loop {
            let next = match queues.take(&self.spec.name) {
                Some(permit) => LocalHandoff::Permit(permit),
                None if self.once => return Err(self.busy(None)),
                None => {
                    let waiting = queues.wait(&self.spec.name, self.spec.lease_wish());
                    Box::pin(self.in_time(waiting)).await?
                }
            };
            let LocalHandoff::Guard(guard) = next else { return Ok(next) };
            if guard.check().is_ok() {
                return Ok(LocalHandoff::Guard(guard));
            }
            // The lease was lost before this call received it. The permit came with it, unless the
            // watchdog has passed the permit on: then this call queues again.
            if let Some(permit) = guard.lease().take_permit() {
                return Ok(LocalHandoff::Permit(permit));
            }
        }
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.since(self.inner.clock.now()))
    }

    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Error> {
        match self.left() {
            None if self.once => {
                tokio::select! {
                    biased;
                    out = waiting => Ok(out),
                    () = std::future::ready(()) => Err(self.busy(None)),
                }
            }
            None => Ok(waiting.await),
            Some(left) => tokio::time::timeout(left, waiting).await.map_err(|_| {
                // The permit holder may be waiting for nodes that do not answer, and not for a
                // holder.
                let trouble = self.inner.local_queues.trouble(&self.spec.name);
                trouble.unwrap_or_else(|| self.busy(None))
            }),
        }
    }

    /// Whether asking again can help after `error`. New nodes are admitted after the longest lease:
    /// only a call with a deadline waits for that.
    pub(super) fn heals(&self, error: &Error) -> bool {
        let needs_new = match error {
            Error::Refused(none) | Error::Unreachable(none) => {
                let new = none.nodes.iter().filter(|node| node.problem == NodeProblem::New);
                new.count() > none.of.saturating_sub(none.needed)
            }
            _ => false,
        };
        error.is_retryable() && (self.deadline.is_some() || !needs_new)
    }

    pub(super) fn busy(&self, remaining: Option<Duration>) -> Error {
        Busy::new(self.spec.name.clone(), remaining).into()
    }
}

impl LockSpec {
    fn lease_wish(&self) -> LeaseWish {
        LeaseWish { ttl: self.ttl(), hold_at_most: self.hold_at_most }
    }

    /// Whether the caller may re-enter `outer`: the options that it set must equal those of
    /// `outer`.
    fn fits(&self, outer: &Lease) -> Result<(), ConfigError> {
        let held = outer.standing.timing().lease;
        // A hold that is shorter than the lease requests a lease of its own length.
        let would_be = |lease: Duration| outer.hold_at_most.map_or(lease, |limit| limit.min(lease));
        let (what, asked, held) = match (self.explicit_lease, self.hold_at_most) {
            (Some(lease), _) if would_be(lease) != held => ("lease", lease, Some(held)),
            (_, Some(limit)) if outer.hold_at_most != Some(limit) => {
                ("hold_at_most", limit, outer.hold_at_most)
            }
            _ => return Ok(()),
        };
        Err(ConfigError::ReEntryDiffers { name: self.name.to_string(), what, asked, held })
    }

    pub(super) fn ttl(&self) -> Duration {
        self.hold_at_most.map_or(self.lease, |limit| limit.min(self.lease))
    }
}
