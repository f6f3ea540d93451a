//! One call of `lock` or `try_lock` on its way to a guard.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock_protocol::Error;

use super::acquire_loop::AcquireLoop;
use super::guard::Guard;
use super::inner::Inner;
use super::lease::Lease;
use super::local_queue::{LocalHandoff, LocalWaiter};
use super::lock_spec::LockSpec;
use super::owner_table::OwnerSlot;

/// One call of `lock` or `try_lock`.
pub(super) struct Acquisition {
    pub(super) inner: Arc<Inner>,
    pub(super) spec: LockSpec,
    /// How many attempts it has made.
    rounds: AtomicU32,
}

impl Acquisition {
    pub(super) fn new(inner: Arc<Inner>, spec: LockSpec) -> Self {
        Self { inner, spec, rounds: AtomicU32::new(0) }
    }

    /// How often it has asked the nodes.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Acquires for an owner. One task of the owner acquires at a time; its other tasks then share
    /// the lease.
    pub(super) async fn acquire_for_owner(&self, place: OwnerSlot) -> Result<Guard, Error> {
        let shared = place.lease();
        let _acquiring = self.in_time(shared.acquiring.lock()).await?;
        for lease in shared.held() {
            if let Some(guard) = self.re_enter(lease).await? {
                return Ok(guard.with_owner(place));
            }
        }
        let guard = self.run().await?;
        shared.add(guard.lease());
        Ok(guard.with_owner(place))
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
    pub(super) async fn run(&self) -> Result<Guard, Error> {
        if self.spec.claim.is_shared() {
            match Box::pin(self.try_beside_others()).await {
                Err(error) if self.may_wait(&error) => {}
                done => return done,
            }
        }
        let permit = loop {
            let lease = match self.local_handoff().await? {
                LocalHandoff::Permit(permit) => break permit,
                LocalHandoff::Lease(lease) => lease,
            };
            let guard = Guard::new(self.inner.clone(), lease);
            if guard.check().is_ok() {
                return Ok(guard);
            }
            // The lease was lost before this call received it. The permit came with it, unless the
            // watchdog has passed the permit on: then this call queues again.
            if let Some(permit) = guard.lease().take_permit() {
                break permit;
            }
        };
        // `now` reads all clocks, so time missed before this is counted here. Otherwise a lease
        // that counts from an early instant would end earlier by it.
        let now = self.inner.clock.now();
        AcquireLoop::new(&self.inner, (&self.spec, &self.rounds), permit, now).run().await
    }

    /// Asks for what several calls of this process may hold at a time, and does not wait, so that such
    /// calls need not wait for each other. Of permits, for slots that no other call asks for or holds.
    async fn try_beside_others(&self) -> Result<Guard, Error> {
        let (inner, spec) = (&self.inner, &self.spec);
        let queues = &inner.local_queues;
        // A call that waits yields to a waiter of another process that was notified just now.
        let yields = !spec.once && queues.lets_others_first(&spec.claim, &inner.clock);
        let place = match yields || queues.has_waiter(&spec.claim) {
            true => None,
            false => queues.take_beside_others(&spec.claim, inner.entropy.fraction()),
        };
        let place = place.ok_or_else(|| spec.busy(None))?;
        let once = LockSpec { once: true, ..spec.clone() };
        AcquireLoop::new(inner, (&once, &self.rounds), place, inner.clock.now()).run().await
    }

    /// Whether the call waits after an attempt that ended so.
    fn may_wait(&self, error: &Error) -> bool {
        let LockSpec { once, fail_fast, .. } = self.spec;
        !once && (error.is_busy() || !fail_fast && self.spec.heals(error))
    }

    /// Waits for the local permit, or for a holder in this process that hands its lease off.
    async fn local_handoff(&self) -> Result<LocalHandoff<Lease>, Error> {
        let queues = &self.inner.local_queues;
        match queues.take(&self.spec.claim) {
            Some(permit) => Ok(LocalHandoff::Permit(permit)),
            None if self.spec.once => Err(self.spec.busy(None)),
            None => {
                let LockSpec { claim, hold_at_most, label, .. } = &self.spec;
                let waiter = queues.wait(claim, self.spec.ttl(), *hold_at_most, label.clone());
                let place = LocalPlace { inner: &self.inner, waiter };
                Box::pin(self.in_time(place.handoff())).await
            }
        }
    }

    fn left(&self) -> Option<Duration> {
        self.spec.deadline.map(|deadline| deadline.since(self.inner.clock.now()))
    }

    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Error> {
        match self.left() {
            None if self.spec.once => {
                tokio::select! {
                    biased;
                    out = waiting => Ok(out),
                    () = std::future::ready(()) => Err(self.spec.busy(None)),
                }
            }
            None => Ok(waiting.await),
            Some(left) => tokio::time::timeout(left, waiting).await.map_err(|_| {
                // The permit holder may be waiting for nodes that do not answer, and not for a
                // holder.
                let trouble = self.inner.local_queues.trouble(&self.spec.claim);
                trouble.unwrap_or_else(|| self.spec.busy(None))
            }),
        }
    }
}

/// A place in the local queue. When it is dropped, the place is given up, and a lease that it was
/// given passes on, as from a guard.
struct LocalPlace<'a> {
    inner: &'a Inner,
    waiter: LocalWaiter<Lease>,
}

impl LocalPlace<'_> {
    async fn handoff(mut self) -> LocalHandoff<Lease> {
        (&mut self.waiter).await
    }
}

impl Drop for LocalPlace<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.waiter.leave() {
            self.inner.drop_guard(&lease);
        }
    }
}
