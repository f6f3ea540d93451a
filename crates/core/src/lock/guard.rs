use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::inner::Inner;
use super::kind::{self, Kind};
use super::lease::Lease;
use super::owner_table::OwnerSlot;
use quorumlock_protocol::telemetry::HoldEnd;
use quorumlock_protocol::{
    ConfigError, Error, FencingToken, Hints, Instant, Lane, LeaseRequest, LossReason, Lost,
    NoMajority, NodeProblem, NodeReport, Nonce, Ticket, expiry, quorum_of,
};
use quorumlock_watchdog::Renewal;

/// A held lock. It is renewed until it is unlocked, dropped or lost.
///
/// Dropping it passes the release to the watchdog's thread and never blocks. [`Guard::unlock`]
/// waits for the release and reports whether the lock was still held. The drop of the locker's
/// last handle (a clone, a guard, a request) waits until all nodes have carried out its releases, for the answer
/// timeout at most: so `?`, a panic and the end of `main` leave no lock behind. `std::process::exit`, an abort and a
/// signal run no drop, nor does a locker in a `static`: call `unlock`, or
/// [`Locker::close`](crate::Locker::close), first.
///
/// Drop or unlock a lost guard, too. Until then, or until the furthest end that the lease ever had,
/// nodes that still hold the lease keep the next holder out (SAFETY.md H26).
///
/// `K` is [what it holds](kind): a lock, a permit, or a read-write lock for reading or for writing.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<K: Kind = kind::Lock> {
    inner: Arc<Inner>,
    lease: Arc<Lease>,
    unlocked: bool,
    /// Until when the hold is kept though its work ends.
    keep_until: Option<Instant>,
    /// Kept after a loss, so that the owner learns of the loss and does not acquire anew by
    /// mistake.
    owner_slot: Option<Box<OwnerSlot>>,
    kind: PhantomData<fn() -> K>,
}

/// A read-only view of a held lock. It can be cloned, and does not keep the lock held.
#[derive(Clone)]
pub struct HoldView {
    lease: Arc<Lease>,
}

macro_rules! views {
    ($view:ty, $name:literal $(, $kind:ident)?) => {
        impl$(<$kind: Kind>)? $view {
            /// The lock's name. Of several names, the first one in order.
            pub fn name(&self) -> &str {
                self.names().next().unwrap_or_default()
            }

            /// All names that the lock holds, in order: one, or several.
            pub fn names(&self) -> impl Iterator<Item = &str> {
                self.lease.claim.given_names().map(|name| name.as_str())
            }

            /// The fencing token of this acquisition: send it with every write.
            pub fn token(&self) -> FencingToken {
                self.lease.token
            }

            /// The id under which the nodes hold this lock: a
            /// [`Holder`](quorumlock_protocol::Holder) for which
            /// [`has`](quorumlock_protocol::Holder::has) is true is this hold. Each acquisition has
            /// a fresh one. Holds that one task of this process handed off to the next share it,
            /// and differ in their tokens.
            pub fn nonce(&self) -> Nonce {
                self.lease.nonce
            }

            /// How long the lock is certainly ours from now on, even if no node ever answers again;
            /// zero once it is lost. Computed from the clock at each call.
            pub fn valid_for(&self) -> Duration {
                self.lease.state.valid_for()
            }

            /// Whether the lock is ours at this instant: [`check`](Self::check) as a yes or no.
            pub fn is_valid(&self) -> bool {
                self.check().is_ok()
            }

            /// Whether the lock is ours, but its renewals fail: the watchdog has sent 6 renewals in
            /// a row and none is confirmed. The watchdog renews when a third of the lease has
            /// passed, and without an answer again each thirtieth of the lease. So this is true
            /// when about half of the lease is left, and until a renewal is confirmed or the lock
            /// is lost.
            ///
            /// False for a lock that nears its `hold_at_most` limit: it is not renewed on purpose.
            pub fn is_at_risk(&self) -> bool {
                self.lease.state.is_at_risk()
            }

            /// Waits until the lock [is at risk](Self::is_at_risk) or no longer ours: an early
            /// warning, to bring the work to a state in which it can stop. The lock may recover.
            ///
            /// Returns at once while the lock is at risk, and after its loss. A lock that the nodes
            /// say is gone was never at risk: the warning is then the loss itself.
            ///
            /// # Cancel safety
            /// Cancel safe.
            pub async fn at_risk(&self) {
                self.lease.state.at_risk().await;
            }

            /// A token that is cancelled when the lock is no longer ours: when it is lost, and also
            /// when it is unlocked or dropped, because work that goes on after that is not guarded
            /// any more. End the work before you unlock, or cancel it by this token. Guards of one
            /// owner share a lease: the last of them ends it.
            ///
            /// The watchdog's thread cancels it, no later than the lease ends, even if the runtime
            /// is blocked. Cancelling it yourself changes neither the lock nor other tokens.
            /// Needs the feature `tokio-util`.
            #[cfg(feature = "tokio-util")]
            pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
                self.lease.state.cancellation_token()
            }

            /// Why the lock will end if it is not renewed: [`LossReason::HoldLimit`] if the lease
            /// already reaches its `hold_at_most` limit, else [`LossReason::WindowShut`]. For a
            /// lost lock, why it was lost.
            pub fn loss_ahead(&self) -> LossReason {
                let state = &self.lease.state;
                state.check().err().unwrap_or_else(|| state.timing().loss_at_end())
            }

            /// Whether the lock is ours at this instant. The answer says nothing about the next
            /// instant: put the token into every write.
            ///
            /// # Errors
            /// [`Lost`]. Once returned, every later call returns it.
            pub fn check(&self) -> Result<(), Lost> {
                self.lease.check()
            }

            /// Waits until the lock is no longer ours; returns at once if it is lost already.
            ///
            /// Resolves no later than the lease ends, provided that the runtime polls the future
            /// and the machine does not sleep (else within a second after it wakes up). A blocked
            /// runtime sees the loss late, so call `check` before each step that matters.
            ///
            /// # Cancel safety
            /// Cancel safe.
            pub async fn lost(&self) -> Lost {
                self.lease.lost(self.lease.state.lost().await)
            }

            fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("name", &self.lease.claim.label())
                    .field("token", &self.lease.token.get())
                    .field("valid_for", &self.valid_for())
                    .finish_non_exhaustive()
            }
        }

        impl$(<$kind: Kind>)? fmt::Debug for $view {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.describe(f)
            }
        }
    };
}

views!(Guard<K>, "Guard", K);
views!(HoldView, "HoldView");

/// Resolves with the loss, as [`HoldView::lost`].
impl IntoFuture for HoldView {
    type Output = Lost;
    type IntoFuture = Pin<Box<dyn Future<Output = Lost> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.lost().await })
    }
}

/// [`Guard::run`] drops its work this long before the lease ends, so that a timer that fires late
/// (tokio's has a granularity of 1 ms) still fires in time.
const END_MARGIN: Duration = Duration::from_millis(2);

impl HoldView {
    /// The number of the slot, of a permit: [`Guard::slot`].
    pub fn slot(&self) -> Option<u16> {
        self.lease.claim.slot()
    }
}

impl Guard<kind::Permit> {
    /// The number of the slot that this permit holds: 0 to the number of permits, less one. No other
    /// valid permit of the name has it, so it can be the number of a worker, a shard or a port.
    pub fn slot(&self) -> u16 {
        self.lease.claim.slot().unwrap_or_default()
    }
}

impl Guard<kind::Lock> {
    /// Stops renewing the lock, and leaves it held on the nodes for another process, which takes it up by
    /// [`Locker::resume`](crate::Locker::resume). Until then the lock is lost when its lease ends:
    /// [`renew`](Self::renew) first, so that the other process has most of a lease.
    ///
    /// From here on this process does not hold the lock: its views say that it is released. The other
    /// process gets the next token of the same block, if there is one left, so that a resource that checks
    /// tokens refuses what this process still writes.
    ///
    /// Resume a ticket once. Two processes that resume one ticket hold one lock, with one token. A ticket
    /// that is dropped releases nothing.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost. [`ConfigError::SharedHold`] if other guards of the owner
    /// share the hold. The guard is then released as by a drop.
    pub fn into_ticket(mut self) -> Result<Ticket, Error> {
        let (inner, lease) = (self.inner.clone(), self.lease.clone());
        inner.watchdog.check_process()?;
        lease.check()?;
        let holds = self.hold_count();
        if holds > 1 {
            let (name, act) = (lease.claim.to_string(), "it moves to another process");
            return Err(ConfigError::SharedHold { name, act, holds }.into());
        }
        let request = self.end()?;
        let now = inner.clock.now();
        inner.lessor.forget(request.nonce, now);
        lease.release_permit();
        let timing = lease.state.timing();
        let left = timing.hold_until.map(|until| until.since(now));
        let names = lease.claim.given_names().cloned().collect();
        let (tokens, layout) = (lease.tokens_for_next(), inner.settings.layout);
        Ok(Ticket::new(names, lease.nonce, tokens, timing.lease, left, layout))
    }
}

impl Guard<kind::Write> {
    /// Goes on as a reader, without a gap: no writer gets the lock in between, and other readers may
    /// join. The token stays. Readers that wait notice it at their next poll.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost. [`ConfigError::SharedHold`] if other guards of the owner
    /// share the hold; [`Error::Config`] outside a runtime. The guard is then released as by a drop.
    ///
    /// # Cancel safety
    /// Once polled, the hold is a reader's; dropping the future releases it.
    pub async fn downgrade(mut self) -> Result<Guard<kind::Read>, Error> {
        self.inner.ensure_here()?;
        let (inner, lease) = (self.inner.clone(), self.lease.clone());
        lease.check()?;
        if let Err(holds) = lease.remove_only_guard() {
            let name = lease.claim.to_string();
            return Err(ConfigError::SharedHold { name, act: "the downgrade", holds }.into());
        }
        let now = inner.clock.now();
        let reader =
            inner.watchdog.hand_off(&lease, now, |until| lease.reader(until, now, &inner.clock));
        let Some(reader) = reader else {
            lease.restore_guard();
            lease.check()?;
            return Err(lease.lost(LossReason::Gone).into());
        };
        self.unlocked = true;
        lease.release_permit();
        inner.telemetry.hold_ended(&lease, HoldEnd::HandedOff);
        inner.telemetry.hold_began(&reader.claim);
        let mut guard = Guard::new(inner.clone(), reader.clone());
        guard.keep_until = self.keep_until;
        if let Some(slot) = self.owner_slot.take() {
            guard = guard.with_owner(slot.moved_to(&reader));
        }
        renew_once(&inner, &reader, now).await?;
        Ok(guard)
    }
}

impl<K: Kind> Guard<K> {
    pub(super) fn new(inner: Arc<Inner>, lease: Arc<Lease>) -> Self {
        let (keep_until, owner_slot) = (None, None);
        Self { inner, lease, unlocked: false, keep_until, owner_slot, kind: PhantomData }
    }

    /// The same hold, as what the caller asked for.
    pub(super) fn into_kind<J: Kind>(mut self) -> Guard<J> {
        self.take()
    }

    /// This guard, out of a place that is dropped.
    fn take<J: Kind>(&mut self) -> Guard<J> {
        let unlocked = std::mem::replace(&mut self.unlocked, true);
        let (inner, lease) = (self.inner.clone(), self.lease.clone());
        let (keep_until, owner_slot) = (self.keep_until.take(), self.owner_slot.take());
        Guard { inner, lease, unlocked, keep_until, owner_slot, kind: PhantomData }
    }

    /// Keeps the hold for this long from now on, though its work ends.
    pub(super) fn kept_for(mut self, time: Duration) -> Self {
        self.keep_until = Some(self.inner.clock.now() + time);
        self
    }

    /// The guard of an owner, who finds the lease again while this guard lives.
    pub(super) fn with_owner(mut self, slot: OwnerSlot) -> Self {
        self.owner_slot = Some(Box::new(slot));
        self
    }

    /// Runs `work` while the lock is ours, and drops it before the lease ends, even if no node
    /// answers.
    ///
    /// # Errors
    /// [`Lost`] if the lock was lost before `work` was done.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work; the lock stays held by the guard.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let lost = async {
            let why = self.lease.state.lost_before_expiry(END_MARGIN).await;
            self.lease.lost(self.lease.state.end(why))
        };
        tokio::select! {
            biased;
            lost = lost => Err(lost),
            out = work => Ok(out),
        }
    }

    /// Renews the lease now, and waits until a majority has confirmed it. Asks again while too few
    /// nodes confirm, for the answer timeout; ends within twice that time.
    ///
    /// The watchdog renews without being asked. Call this before a step that needs as much of the
    /// lease as possible, or to learn whether the nodes still keep the lock.
    ///
    /// The lease then lasts as long as when it was taken, but never past its `hold_at_most` limit.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is lost, also if the nodes say so now. [`Error::Unreachable`]
    /// with [`NodeProblem::NotRenewed`] if too few nodes confirmed: the guard stays valid as long
    /// as [`valid_for`](Self::valid_for) says, and the watchdog tries on. [`Error::Config`] outside
    /// a runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: a renewal that was sent may be carried out, and the guard does not count on it.
    pub fn renew(&self) -> impl Future<Output = Result<(), Error>> + Send + use<K> {
        // It borrows nothing, so that the blocking API can run it elsewhere.
        renew(self.inner.clone(), self.lease.clone())
    }

    /// A view of the lock for other tasks.
    pub fn view(&self) -> HoldView {
        HoldView { lease: self.lease.clone() }
    }

    /// How many guards of the same [`Owner`](quorumlock_protocol::Owner) share this lock.
    pub fn hold_count(&self) -> u32 {
        self.lease.holds.load(Ordering::SeqCst)
    }

    /// Releases the lock, or one hold of it if other guards share it. If another task of this
    /// process waits for the lock, it may receive the lease without a message to the nodes.
    ///
    /// Waits first until [`hold_at_least`](crate::LockRequest::hold_at_least) is over.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was no longer held. [`Error::Unreachable`] or [`Error::Refused`]
    /// if too few nodes confirmed the release: the lock is not renewed any more, and is free when
    /// its lease ends. [`Error::Config`] outside a runtime: the lock is then released as by a drop.
    ///
    /// # Cancel safety
    /// The first poll posts the release. If the future is dropped before that, the drop posts it.
    pub async fn unlock(mut self) -> Result<(), Error> {
        // Outside a runtime the drop of `self` passes the release to the watchdog's thread.
        self.inner.ensure_here()?;
        if let Some(until) = self.keep_until {
            self.keep(until).await;
        }
        self.unlocked = true;
        let now = self.inner.clock.now();
        let still = self.lease.check_at(now);
        if self.lease.remove_guard() > 0 {
            still?;
            return self.publish_holds().await;
        }
        if self.inner.hand_off(&self.lease, now) {
            // Lets the next holder run first: this task would most often only ask again, behind it.
            tokio::task::yield_now().await;
            return Ok(());
        }
        let request = self.end()?;
        let clock = &self.inner.clock;
        let queue = self.lease.local_queue();
        let contended = self.inner.local_queues.is_contended(&queue, clock);
        let (held, hints) = (self.lease.held_interval(), Hints::contended(contended));
        let releasing = self.inner.lessor.release(request, held, Lane::Caller, hints);
        let mut permit = self.lease.take_permit();
        if self.lease.chain.handoffs == 0 && !contended {
            // The next local caller queues behind this release on the same connection. After a
            // local handoff, or while other processes contend, the permit stays here until the
            // answer tells whether they wait.
            permit = None;
        }
        let freed = self.inner.telemetry.release(&self.lease.claim, releasing).await;
        if let Ok(freed) = &freed {
            self.inner.local_queues.released(&queue, freed.notified, clock);
        }
        drop(permit);
        still?;
        if freed?.held { Ok(()) } else { Err(self.lease.lost(LossReason::Gone).into()) }
    }

    /// Waits until `until`, or until the lock is lost.
    async fn keep(&self, until: Instant) {
        let over = async {
            loop {
                match until.since(self.inner.clock.now()) {
                    Duration::ZERO => break,
                    left => tokio::time::sleep(left).await,
                }
            }
        };
        tokio::select! {
            biased;
            () = over => {}
            _ = self.lease.state.lost() => {}
        }
    }

    /// Tells the nodes how many guards share the lease: an absolute count. Without an answer, the
    /// watchdog's next renewal carries the count.
    pub(super) async fn publish_holds(&self) -> Result<(), Error> {
        renew_once(&self.inner, &self.lease, self.inner.clock.now()).await?;
        Ok(())
    }

    /// Ends the last hold, and returns the request that releases the lease on the nodes.
    ///
    /// # Errors
    /// [`Lost`] if the lock was lost: the watchdog then releases it.
    fn end(&mut self) -> Result<LeaseRequest, Lost> {
        self.unlocked = true;
        let kept = self.inner.watchdog.stop_renewing(&self.lease);
        let why = self.lease.state.end(LossReason::Released);
        self.inner.telemetry.hold_ended(&self.lease, why.into());
        if kept {
            Ok(self.lease.request(self.lease.state.timing().lease))
        } else {
            Err(self.lease.lost(why))
        }
    }

    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }
}

async fn renew(inner: Arc<Inner>, lease: Arc<Lease>) -> Result<(), Error> {
    inner.ensure_here()?;
    let begun = inner.clock.now();
    // A lease that lasts to here was confirmed after the call began. Earlier confirmations can
    // still come in, and move its end as well. Less what the computation rounds.
    let max_clock_drift = inner.settings.max_clock_drift;
    let confirmed = expiry(begun, lease.ttl(begun), max_clock_drift) - Duration::from_micros(1);
    let mut pause = MIN_RENEW_PAUSE;
    loop {
        lease.check()?;
        let now = inner.clock.now();
        if now.since(begun) >= inner.settings.answer_timeout {
            let nodes = inner.lessor.nodes();
            let report = NodeReport::new("its nodes", NodeProblem::NotRenewed);
            let name = Some(lease.claim.label());
            return Err(NoMajority::new(name, (nodes, quorum_of(nodes)), 0, vec![report]).into());
        }
        if renew_once(&inner, &lease, now).await?.is_some_and(|until| until >= confirmed) {
            return Ok(());
        }
        // One node's no ends the request at once, before the others have answered.
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Asks the nodes once. Returns until when the lease then lasts; `None` if too few have answered.
async fn renew_once(
    inner: &Inner,
    lease: &Arc<Lease>,
    now: Instant,
) -> Result<Option<Instant>, Lost> {
    let request = lease.request(lease.ttl(now));
    match inner.lessor.renew(vec![request], Lane::Caller).await.first() {
        Some(Renewal::Until(until)) => {
            inner.watchdog.renewed(lease, *until).map_err(|why| lease.lost(why))?;
            Ok(Some(*until))
        }
        Some(Renewal::Gone) => Err(lease.lost(inner.watchdog.end(lease, LossReason::Gone))),
        Some(Renewal::Unknown) | None => Ok(None),
    }
}

/// The pause of [`Guard::renew`] before it asks a second time. It doubles each time.
const MIN_RENEW_PAUSE: Duration = Duration::from_millis(1);

impl<K: Kind> Drop for Guard<K> {
    fn drop(&mut self) {
        if self.unlocked {
            return;
        }
        match self.keep_until.take().filter(|until| *until > self.inner.clock.now()) {
            Some(until) => {
                // It holds the locker, and so the watchdog. Without its thread it is dropped here.
                let kept: Self = self.take();
                self.inner.clone().watchdog.spawn(async move {
                    kept.keep(until).await;
                });
            }
            None => self.inner.drop_guard(&self.lease),
        }
    }
}
