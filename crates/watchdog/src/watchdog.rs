use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::schedule::{Schedule, TimerAction, WatchedLease};
use crate::{Clock, Process};
use quorumlock_protocol::{ConfigError, Instant, LossReason, Nonce, ReplySink};

/// What a renewal found out about one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease is valid until this instant: the same as before if no node confirmed the renewal.
    Until(Instant),
    /// The lessor definitely no longer holds the lease for us.
    Gone,
    /// No answer: the lease is neither lost nor renewed. The local clock decides.
    Unknown,
}

/// Renews and releases leases at the lessor. The watchdog polls the futures on its own thread.
pub trait Renewer: Send + Sync + 'static {
    /// The type of lease that it renews.
    type Lease: WatchedLease;

    /// Renews each lease for the duration given with it; one answer per lease, in order. Must end
    /// within a bound.
    fn renew(
        &self,
        batch: Vec<(Arc<Self::Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>>;

    /// A number for the servers that hold the lease: leases with different numbers are renewed by
    /// separate calls, so that servers that hang delay no renewal at others. The same for all by default.
    fn shard(&self, lease: &Self::Lease) -> u64 {
        let _ = lease;
        0
    }

    /// Waits, within a bound, until every node has answered its requests: a release is done when
    /// most nodes have confirmed it, and requests to the others may still be queued. Does nothing
    /// by default.
    fn drain(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    /// For how long after its last possible use a lost lease is still not released. Zero by default.
    fn takeover_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Hears, once or more often, that a lease was lost. Must not block. Does nothing by default.
    fn lost(&self, lease: &Self::Lease, loss: LossReason) {
        let _ = (lease, loss);
    }

    /// Lets the lessor tell `to` the nonces of leases that somebody released by force. Called when leases
    /// are held for a while, and again with renewals. Does nothing by default.
    fn hear_forced(&self, to: Arc<dyn ReplySink<Nonce>>) {
        let _ = to;
    }

    /// Background work while the watchdog lives. Does nothing by default.
    fn run_background(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Releases a lease that has no holder any more. Must end within a bound.
    fn release(&self, lease: Arc<Self::Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Watches leases: renews them in time, reports their loss, releases those whose guard was dropped.
///
/// There is one per `Locker`, on a thread of its own, so that a blocked runtime loses no lock. The
/// thread ends when the last handle is dropped and all releases are done. Its drop waits until all
/// nodes have carried them out, because the process may end then.
pub struct Watchdog<R: Renewer> {
    shared: Arc<Shared<R>>,
    process: Process,
    /// That of its thread, or the one on which it was made.
    runtime: Option<Handle>,
    /// `None`: there is no thread.
    thread: Option<ThreadId>,
    /// How long the drop waits for releases.
    last_wait: Duration,
}

struct Shared<R: Renewer> {
    clock: Clock,
    renewer: R,
    state: Mutex<State<R::Lease>>,
    wake: Notify,
    /// Notified when a release is done.
    released: Condvar,
}

struct State<L> {
    takeover_delay: Duration,
    schedule: Schedule<L>,
    releases: Vec<Arc<L>>,
    /// How many releases are in progress.
    releasing: usize,
    /// Whether anything was released since the nodes last settled.
    unsettled: bool,
    /// How many times the nodes are being waited for.
    settling: usize,
    flushes: Vec<oneshot::Sender<()>>,
    /// Since when there is a lease, as far as it is known.
    held_since: Option<Instant>,
    /// Whether the lessor was asked to tell of forced releases.
    hears_forced: bool,
    /// When the thread wakes without a notification; a lease that is due later does not notify it.
    planned: Option<Instant>,
    closed: bool,
}

impl<R: Renewer> Watchdog<R> {
    /// Starts the thread. The drop waits for releases for `last_wait` at most.
    ///
    /// # Errors
    /// When the operating system gives no thread or no event queue.
    pub fn start(clock: Clock, renewer: R, last_wait: Duration) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut watchdog, work) = Self::new(clock, renewer);
        watchdog.runtime = Some(runtime.handle().clone());
        let handle = std::thread::Builder::new()
            .name("quorumlock-watchdog".into())
            .spawn(move || runtime.block_on(work))?;
        (watchdog.thread, watchdog.last_wait) = (Some(handle.thread().id()), last_wait);
        Ok(watchdog)
    }

    /// A watchdog without a thread: it acts only while `work` is polled, on a tokio runtime. For
    /// simulations, which decide themselves when each task runs.
    pub fn new(clock: Clock, renewer: R) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let state = Mutex::new(State::new(renewer.takeover_delay()));
        let (wake, released) = (Notify::new(), Condvar::new());
        let shared = Arc::new(Shared { clock, renewer, state, wake, released });
        let work = shared.clone();
        let work = async move {
            let tend = work.renewer.run_background();
            tokio::select! {
                biased;
                () = work.run() => {}
                () = tend => {}
            }
        };
        let (process, runtime) = (Process::current(), Handle::try_current().ok());
        (Self { shared, process, runtime, thread: None, last_wait: Duration::ZERO }, work)
    }

    /// Runs `work` on the watchdog's thread. Without a runtime, or in a fork, it drops it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let (Some(runtime), Ok(())) = (&self.runtime, self.check_process()) {
            runtime.spawn(work);
        }
    }

    /// The thread is in no fork of the process.
    ///
    /// # Errors
    /// [`ConfigError::Forked`] in another process than that which started the thread.
    pub fn check_process(&self) -> Result<(), ConfigError> {
        self.process.check()
    }

    /// Renews `lease` from now on, until [`Watchdog::stop_renewing`], [`Watchdog::release`] or its
    /// loss. `asked` is when the lease was requested: the lessor counts the lease from then on.
    pub fn watch(&self, lease: &Arc<R::Lease>, asked: Instant) {
        let mut state = self.shared.state();
        if state.schedule.is_empty() {
            state.held_since = Some(asked);
        }
        state.schedule.add(lease.clone(), asked);
        let sooner = match (state.next(), state.planned) {
            (Some(next), Some(planned)) => next < planned,
            _ => true,
        };
        drop(state);
        if sooner {
            self.shared.wake.notify_one();
        }
    }

    /// Notes that the lessor has renewed `lease` at another caller's request: the lease is valid
    /// until `until`.
    ///
    /// # Errors
    /// The [`LossReason`] if the lease had already ended.
    pub fn renewed(&self, lease: &R::Lease, until: Instant) -> Result<(), LossReason> {
        let now = self.shared.clock.now();
        self.shared.state().renewed(lease, until, now)
    }

    /// Notes that the lessor, asked by another caller, said that the lease is lost; returns why the
    /// lease ended.
    pub fn end(&self, lease: &R::Lease, loss: LossReason) -> LossReason {
        let now = self.shared.clock.now();
        let ended = self.shared.state().end(lease.id(), loss, now);
        self.shared.tell(ended);
        self.shared.wake.notify_one();
        lease.state().end(loss)
    }

    /// Hands `old` off, at `now`, to a successor with the same id. `successor` makes it from the
    /// instant until which `old` is valid. From then on the watchdog renews the successor, and
    /// `old` counts as released. `None` if `old` is no longer valid or watched.
    pub fn hand_off(
        &self,
        old: &R::Lease,
        now: Instant,
        successor: impl FnOnce(Instant) -> Arc<R::Lease>,
    ) -> Option<Arc<R::Lease>> {
        // Under the lock that renewal answers take: an answer reaches either `old` or its
        // successor.
        let state = &mut *self.shared.state();
        state.schedule.get(old.id())?;
        let new = successor(old.state().hand_off(now).ok()?);
        debug_assert_eq!(new.id(), old.id());
        state.schedule.add(new.clone(), now);
        if old.state().must_ask() {
            state.schedule.said_forced(new.nonce(), now);
        }
        Some(new)
    }

    /// Stops renewing the lease: its holder releases it. False if the watchdog has already given
    /// the lease up, or must delay its release; then the watchdog releases it.
    pub fn stop_renewing(&self, lease: &R::Lease) -> bool {
        // Locked first, so that the watchdog notes no loss in between.
        let mut state = self.shared.state();
        !state.delays(lease) && state.schedule.remove(lease.id()).is_some()
    }

    /// Stops renewing the lease and releases it on the watchdog's thread, unless the watchdog has
    /// already given it up, or must delay its release.
    pub fn release(&self, lease: Arc<R::Lease>) {
        let mut state = self.shared.state();
        if !state.delays(&*lease) && state.schedule.remove(lease.id()).is_some() {
            state.releases.push(lease);
            drop(state);
            self.shared.wake.notify_one();
        }
    }

    /// Waits until all releases requested so far are done.
    ///
    /// # Cancel safety
    /// Cancel safe: the releases go on.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        self.shared.state().flushes.push(done);
        self.shared.wake.notify_one();
        // An error means that the thread has ended, and that nothing is left to wait for.
        let _ = wait.await;
    }

    /// How many leases are watched.
    pub fn len(&self) -> usize {
        self.shared.state().schedule.len()
    }

    /// Whether no lease is watched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<R: Renewer> Drop for Watchdog<R> {
    fn drop(&mut self) {
        // In a fork nobody would release the lock on the state, if the thread had it.
        if self.check_process().is_err() {
            return;
        }
        let mut state = self.shared.state();
        state.closed = true;
        self.shared.wake.notify_one();
        if self.thread.is_some_and(|thread| thread != std::thread::current().id()) {
            let releases = |state: &mut State<_>| !state.is_settled();
            let _ = self.shared.released.wait_timeout_while(state, self.last_wait, releases);
        }
    }
}

impl<R: Renewer> fmt::Debug for Watchdog<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("watched", &self.len()).finish_non_exhaustive()
    }
}

/// The most leases that one call to the lessor renews.
const BATCH: usize = 128;

/// For how long there must be a lease before the lessor is asked to tell of forced releases, which costs a
/// connection: most leases are over before.
const HEAR_AFTER: Duration = Duration::from_secs(1);

/// Hears of forced releases.
struct ForcedReleases<R: Renewer>(Weak<Shared<R>>);

impl<R: Renewer> ReplySink<Nonce> for ForcedReleases<R> {
    fn collect(&self, _from: usize, nonce: Nonce) {
        if let Some(shared) = self.0.upgrade() {
            let now = shared.clock.now();
            shared.state().schedule.said_forced(nonce, now);
            shared.wake.notify_one();
        }
    }
}

impl<R: Renewer> Shared<R> {
    async fn run(self: Arc<Self>) {
        loop {
            let (acts, hear, releases, flushes, wake) = {
                let now = self.clock.now();
                let mut state = self.state();
                let hear = state.is_time_to_hear(now);
                let acts = state.schedule.due(now, BATCH);
                let releases = std::mem::take(&mut state.releases);
                state.releasing += releases.len();
                state.unsettled |= !releases.is_empty();
                let ended = state.closed && acts.is_empty() && state.releasing == 0;
                state.planned = state.next();
                let wake = (!ended).then_some(state.planned.map(|at| at.since(now)));
                (acts, hear, releases, state.flushable(), wake)
            };
            let Some(sleep) = wake else {
                return self.finish(flushes).await;
            };
            if !flushes.is_empty() {
                tokio::spawn(self.clone().finish(flushes));
            }
            if hear {
                self.hear_forced();
            }
            let more = acts.len() == BATCH;
            self.act(acts);
            for lease in releases {
                let this = self.clone();
                tokio::spawn(async move {
                    this.renewer.release(lease).await;
                    this.state().releasing -= 1;
                    this.released.notify_all();
                    this.wake.notify_one();
                });
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            // The timer only wakes the thread; the clock decides whether a lease is valid.
            let sleep = async {
                match sleep {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep => {}
            }
        }
    }

    async fn finish(self: Arc<Self>, flushes: Vec<oneshot::Sender<()>>) {
        let unsettled = {
            let mut state = self.state();
            let unsettled = std::mem::take(&mut state.unsettled);
            state.settling += usize::from(unsettled);
            unsettled
        };
        if unsettled {
            self.renewer.drain().await;
            self.state().settling -= 1;
            self.released.notify_all();
        }
        for done in flushes {
            let _ = done.send(());
        }
    }

    fn act(self: &Arc<Self>, acts: Vec<TimerAction>) {
        let mut batches = BTreeMap::<u64, Vec<_>>::new();
        let mut ended = Vec::new();
        {
            let now = self.clock.now();
            let mut state = self.state();
            for act in acts {
                match act {
                    TimerAction::Renew(id, ttl) => {
                        if let Some(lease) = state.schedule.get(id).cloned() {
                            batches
                                .entry(self.renewer.shard(&lease))
                                .or_default()
                                .push((lease, ttl));
                        }
                    }
                    TimerAction::End(id, loss) => {
                        // The holder is told now; the nodes are released later all the same.
                        ended.extend(state.end(id, loss, now));
                        self.wake.notify_one();
                    }
                }
            }
        }
        self.tell(ended);
        for batch in batches.into_values() {
            tokio::spawn(self.clone().renew(batch));
        }
    }

    fn hear_forced(self: &Arc<Self>) {
        self.renewer.hear_forced(Arc::new(ForcedReleases(Arc::downgrade(self))));
    }

    async fn renew(self: Arc<Self>, batch: Vec<(Arc<R::Lease>, Duration)>) {
        // The task that listened may have ended with its runtime.
        self.hear_forced();
        let ids: Vec<_> = batch.iter().map(|(lease, _)| lease.id()).collect();
        let answers = self.renewer.renew(batch).await;
        let now = self.clock.now();
        let mut ended = Vec::new();
        let mut state = self.state();
        for (id, answer) in ids.into_iter().zip(answers) {
            // If the lease was released meanwhile, the caller cleans up. If it was handed off, the
            // answer is for its successor.
            let Some(lease) = state.schedule.get(id).cloned() else { continue };
            let loss = match answer {
                Renewal::Unknown => continue,
                Renewal::Until(until) => match state.renewed(&*lease, until, now) {
                    Ok(()) => continue,
                    Err(loss) => loss,
                },
                Renewal::Gone => LossReason::Gone,
            };
            ended.extend(state.end(id, loss, now));
        }
        drop(state);
        self.tell(ended);
        self.wake.notify_one();
    }

    /// Tells the renewer of lost leases, without the lock on the state.
    fn tell(&self, lost: impl IntoIterator<Item = (Arc<R::Lease>, LossReason)>) {
        for (lease, loss) in lost {
            self.renewer.lost(&lease, loss);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<R::Lease>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: WatchedLease> State<L> {
    fn renewed(&mut self, lease: &L, until: Instant, now: Instant) -> Result<(), LossReason> {
        lease.state().renew(until)?;
        self.schedule.renewed(lease.id(), now);
        Ok(())
    }

    /// Ends the lease and tells its holder. The nodes are released when the holder has learned of
    /// the loss, which is when its guard is gone, or when the last window that the holder can have
    /// read has shut, whichever comes first: until then the nodes that still hold the lease keep
    /// the next holder out (SAFETY.md H26). With a takeover delay, that long after the last window
    /// (PROTOCOL.md WIN3).
    ///
    /// Returns the lease, and why it ended; `None` if it is not watched.
    fn end(&mut self, id: u64, loss: LossReason, now: Instant) -> Option<(Arc<L>, LossReason)> {
        let lease = self.schedule.get(id)?.clone();
        let loss = lease.state().end(loss);
        let free_at = lease.state().furthest_promised() + self.takeover_delay;
        if free_at > now {
            self.schedule.defer_release(id, free_at);
        } else {
            self.releases.extend(self.schedule.remove(id));
        }
        Some((lease, loss))
    }

    /// When the thread must look again.
    fn next(&self) -> Option<Instant> {
        let hear_at =
            self.held_since.filter(|_| !self.hears_forced).map(|since| since + HEAR_AFTER);
        self.schedule.next().into_iter().chain(hear_at).min()
    }

    /// Whether the lessor must be asked now to tell of forced releases. True once.
    fn is_time_to_hear(&mut self, now: Instant) -> bool {
        if self.schedule.is_empty() {
            self.held_since = None;
        }
        let since = self.held_since.filter(|_| !self.hears_forced);
        let hears = since.is_some_and(|since| since + HEAR_AFTER <= now);
        self.hears_forced |= hears;
        hears
    }

    /// Whether the lease was lost, and the takeover delay holds its release back: its holder may not
    /// have stopped yet.
    fn delays(&self, lease: &L) -> bool {
        let lost = lease.state().loss().is_some_and(|loss| loss != LossReason::Released);
        lost && !self.takeover_delay.is_zero()
    }

    /// The callers that wait for releases, if no release is left.
    fn flushable(&mut self) -> Vec<oneshot::Sender<()>> {
        match self.is_released() {
            true => std::mem::take(&mut self.flushes),
            false => Vec::new(),
        }
    }

    /// Whether all nodes have carried out the releases: some may be on their way to a minority.
    fn is_settled(&self) -> bool {
        self.is_released() && !self.unsettled && self.settling == 0
    }

    /// Whether all that was to be released is.
    fn is_released(&self) -> bool {
        self.releasing == 0 && self.releases.is_empty()
    }
}

impl<L> State<L> {
    fn new(takeover_delay: Duration) -> Self {
        Self {
            takeover_delay,
            schedule: Schedule::default(),
            releases: Vec::new(),
            releasing: 0,
            unsettled: false,
            settling: 0,
            flushes: Vec::new(),
            held_since: None,
            hears_forced: false,
            planned: None,
            closed: false,
        }
    }
}
