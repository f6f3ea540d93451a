use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::schedule::{Due, Schedule};
use crate::{Clock, Instant, Loss, Standing};

/// A lease that a [`Keeper`] can keep.
pub trait Leased: Send + Sync + 'static {
    /// Unique among the leases of one keeper.
    fn id(&self) -> u64;
    /// Whether it stands, and how it is to be kept.
    fn standing(&self) -> &Standing;
}

/// What a renewal round found out about one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It now stands until then; the same instant as before if nothing was heard.
    Until(Instant),
    /// Definitely not ours any more.
    Gone,
    /// No answer: neither lost nor renewed. The local clock decides.
    Unknown,
}

/// Asks the lessor to renew and to release. The keeper polls the futures on its own thread.
pub trait Renewer: Send + Sync + 'static {
    /// The leases it knows.
    type Lease: Leased;

    /// Renews each for so long; one answer per lease, in order. Must end within a bound.
    fn renew(
        &self,
        batch: Vec<(Arc<Self::Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>>;

    /// Waits until every node has answered what was asked of it, within a bound: a release is done
    /// when most nodes have confirmed it, and the others may still lie in a queue. Nothing by
    /// default.
    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    /// What else is to be done while the keeper lives. Nothing by default.
    fn tend(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Gives back a lease that nobody holds any more. Must end within a bound.
    fn release(&self, lease: Arc<Self::Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Keeps leases: renews them in time, tells loss, releases what was dropped.
///
/// One per `Locker`, on a thread of its own, so that a blocked runtime loses no lock. The thread
/// ends when the last handle is dropped and all releases are done.
pub struct Keeper<R: Renewer> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Renewer> {
    clock: Clock,
    renewer: R,
    state: Mutex<State<R::Lease>>,
    wake: Notify,
}

struct State<L> {
    schedule: Schedule<L>,
    releases: Vec<Arc<L>>,
    /// Releases under way.
    releasing: usize,
    /// Whether anything was released since the nodes last settled.
    unsettled: bool,
    flushes: Vec<oneshot::Sender<()>>,
    /// When the thread wakes by itself; later additions need not wake it.
    planned: Option<Instant>,
    closed: bool,
}

impl<R: Renewer> Keeper<R> {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system gives no thread or no event queue.
    pub fn start(clock: Clock, renewer: R) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (keeper, work) = Self::new(clock, renewer);
        std::thread::Builder::new()
            .name("quorumlock-keeper".into())
            .spawn(move || runtime.block_on(work))?;
        Ok(keeper)
    }

    /// A keeper without a thread: `work` must be polled, on a tokio runtime, for it to act. For
    /// simulations, which decide themselves who runs when.
    pub fn new(clock: Clock, renewer: R) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared {
            clock,
            renewer,
            state: Mutex::new(State::default()),
            wake: Notify::new(),
        });
        let work = shared.clone();
        let work = async move {
            let tend = work.renewer.tend();
            tokio::select! {
                biased;
                () = work.run() => {}
                () = tend => {}
            }
        };
        (Self { shared }, work)
    }

    /// Renews `lease` from now on, until [`Keeper::forget`], [`Keeper::release`] or its loss. It was asked
    /// for at `asked`: from then on the lessor counts.
    pub fn keep(&self, lease: &Arc<R::Lease>, asked: Instant) {
        let mut state = self.shared.state();
        state.schedule.add(lease.clone(), asked);
        let sooner = match (state.schedule.next(), state.planned) {
            (Some(next), Some(planned)) => next < planned,
            _ => true,
        };
        drop(state);
        if sooner {
            self.shared.wake.notify_one();
        }
    }

    /// The lessor renewed it at somebody else's request: it stands until `until`.
    ///
    /// # Errors
    /// The [`Loss`] if it had already ended.
    pub fn renewed(&self, lease: &R::Lease, until: Instant) -> Result<(), Loss> {
        let now = self.shared.clock.now();
        self.shared.state().renewed(lease, until, now)
    }

    /// The lessor said at somebody else's request that it is lost; returns why it ended.
    pub fn end(&self, lease: &R::Lease, loss: Loss) -> Loss {
        let now = self.shared.clock.now();
        self.shared.state().end(lease.id(), loss, now);
        self.shared.wake.notify_one();
        lease.standing().end(loss)
    }

    /// Hands `old` on, `now`, to a successor with the same id, made of the instant until which it stands:
    /// from then on that one is kept, and `old` is released. `None` if `old` stands no more.
    pub fn pass(
        &self,
        old: &R::Lease,
        now: Instant,
        successor: impl FnOnce(Instant) -> Arc<R::Lease>,
    ) -> Option<Arc<R::Lease>> {
        // Under the lock that answers take: a renewal reaches the one or the other.
        let state = &mut *self.shared.state();
        state.schedule.get(old.id())?;
        let new = successor(old.standing().pass(now).ok()?);
        debug_assert_eq!(new.id(), old.id());
        state.schedule.add(new.clone(), now);
        Some(new)
    }

    /// Renews it no more: its holder releases it himself. False if the keeper gave it up already;
    /// then it is being released.
    pub fn forget(&self, lease: &R::Lease) -> bool {
        self.shared.state().schedule.remove(lease.id()).is_some()
    }

    /// Renews it no more and releases it on the keeper's thread, unless it was given up already.
    pub fn release(&self, lease: Arc<R::Lease>) {
        let mut state = self.shared.state();
        if state.schedule.remove(lease.id()).is_some() {
            state.releases.push(lease);
            drop(state);
            self.shared.wake.notify_one();
        }
    }

    /// Waits until every release handed over so far is done.
    ///
    /// # Cancel safety
    /// Cancel safe: the releases go on.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        self.shared.state().flushes.push(done);
        self.shared.wake.notify_one();
        // An error means that the thread is gone, and with it whatever could be waited for.
        let _ = wait.await;
    }

    /// How many leases are kept.
    pub fn len(&self) -> usize {
        self.shared.state().schedule.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<R: Renewer> Drop for Keeper<R> {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.wake.notify_one();
    }
}

impl<R: Renewer> fmt::Debug for Keeper<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("kept", &self.len()).finish_non_exhaustive()
    }
}

/// One call to the lessor renews at most so many leases.
const BATCH: usize = 128;

impl<R: Renewer> Shared<R> {
    async fn run(self: Arc<Self>) {
        loop {
            let (acts, releases, flushes, wake) = {
                let now = self.clock.now();
                let mut state = self.state();
                let acts = state.schedule.due(now, BATCH);
                let releases = std::mem::take(&mut state.releases);
                state.releasing += releases.len();
                state.unsettled |= !releases.is_empty();
                let ended = state.closed && acts.is_empty() && state.releasing == 0;
                state.planned = state.schedule.next();
                let wake = (!ended).then_some(state.planned.map(|at| at.since(now)));
                (acts, releases, state.flushable(), wake)
            };
            let Some(sleep) = wake else {
                return self.finish(flushes).await;
            };
            if !flushes.is_empty() {
                tokio::spawn(self.clone().finish(flushes));
            }
            let more = acts.len() == BATCH;
            self.act(acts);
            for lease in releases {
                let this = self.clone();
                tokio::spawn(async move {
                    this.renewer.release(lease).await;
                    this.state().releasing -= 1;
                    this.wake.notify_one();
                });
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            // The timer only wakes us; whether a lease stands is decided by reading the clock.
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
        if std::mem::take(&mut self.state().unsettled) {
            self.renewer.settle().await;
        }
        for done in flushes {
            let _ = done.send(());
        }
    }

    fn act(self: &Arc<Self>, acts: Vec<Due>) {
        let mut batch = Vec::new();
        {
            let now = self.clock.now();
            let mut state = self.state();
            for act in acts {
                match act {
                    Due::Renew(id, ttl) => {
                        batch.extend(state.schedule.get(id).map(|lease| (lease.clone(), ttl)));
                    }
                    Due::End(id, loss) => {
                        // Whoever holds it is told now; its nodes are cleaned up all the same.
                        state.end(id, loss, now);
                        self.wake.notify_one();
                    }
                }
            }
        }
        if !batch.is_empty() {
            tokio::spawn(self.clone().renew(batch));
        }
    }

    async fn renew(self: Arc<Self>, batch: Vec<(Arc<R::Lease>, Duration)>) {
        let ids: Vec<_> = batch.iter().map(|(lease, _)| lease.id()).collect();
        let answers = self.renewer.renew(batch).await;
        let now = self.clock.now();
        let mut state = self.state();
        for (id, answer) in ids.into_iter().zip(answers) {
            // Released in the meantime? Then somebody else cleans up. Handed on? Then it is its
            // successor's.
            let Some(lease) = state.schedule.get(id).cloned() else { continue };
            let loss = match answer {
                Renewal::Unknown => continue,
                Renewal::Until(until) => match state.renewed(&*lease, until, now) {
                    Ok(()) => continue,
                    Err(loss) => loss,
                },
                Renewal::Gone => Loss::Gone,
            };
            state.end(id, loss, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State<R::Lease>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Leased> State<L> {
    fn renewed(&mut self, lease: &L, until: Instant, now: Instant) -> Result<(), Loss> {
        lease.standing().renew(until)?;
        self.schedule.renewed(lease.id(), now);
        Ok(())
    }

    /// Tells the holder that it is lost. The nodes get it back when he has heard, that is when his
    /// guard is gone, or when the last window that he can have read has shut, if that comes first:
    /// until then those that still hold it keep the next one out (SAFETY.md H26).
    fn end(&mut self, id: u64, loss: Loss, now: Instant) {
        let Some(lease) = self.schedule.get(id) else { return };
        lease.standing().end(loss);
        let told = lease.standing().told();
        if told > now {
            self.schedule.linger(id, told);
        } else {
            self.releases.extend(self.schedule.remove(id));
        }
    }

    /// Who waits for releases, if none is left.
    fn flushable(&mut self) -> Vec<oneshot::Sender<()>> {
        match self.releasing == 0 && self.releases.is_empty() {
            true => std::mem::take(&mut self.flushes),
            false => Vec::new(),
        }
    }
}

impl<L> Default for State<L> {
    fn default() -> Self {
        Self {
            schedule: Schedule::default(),
            releases: Vec::new(),
            releasing: 0,
            unsettled: false,
            flushes: Vec::new(),
            planned: None,
            closed: false,
        }
    }
}
