use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorumlock_watchdog::{Clock, Keeper};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::acquire::{Lock, TryLock};
use super::guard::Watch;
use super::lease::{Keep, Lease};
use super::owners::Owners;
use super::turns::Turns;
use crate::admission::Examined;
use crate::{
    Chance, ConfigError, Error, Holder, Lane, Lessor, Name, Owner, Settings, Wire, runtime,
};

/// Takes locks on one node or on a quorum: the same API and the same promises.
///
/// Cheap to clone; clones share connections and the watchdog's thread, which ends with the last
/// clone and guard. Making one does no I/O.
#[derive(Clone)]
pub struct Locker {
    pub(super) inner: Arc<Inner>,
}

/// What a locker takes from the world around it; [`World::default`] is the real one.
#[derive(Clone, Debug)]
pub struct World {
    /// Decides whether leases stand.
    pub clock: Clock,
    /// Gives nonces and jitter.
    pub chance: Chance,
    /// Whether the watchdog runs as a task where the locker is made, instead of on a thread of its
    /// own: for simulations. A blocked runtime then loses locks.
    pub keeper_on_this_runtime: bool,
}

impl Default for World {
    fn default() -> Self {
        Self { clock: Clock::system(), chance: Chance::system(), keeper_on_this_runtime: false }
    }
}

pub(super) struct Inner {
    pub(super) lessor: Arc<dyn Lessor>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) chance: Chance,
    pub(super) keeper: Keeper<Keep>,
    pub(super) turns: Turns,
    pub(super) owners: Owners,
    /// Whether it is closed; and a receiver for each call that may still be granted a lock.
    pub(super) calls: watch::Sender<bool>,
}

impl Locker {
    /// A locker over any lessor: for other stores, simulations, tests.
    ///
    /// # Errors
    /// [`ConfigError`] for settings out of bounds, or when no thread can be started.
    pub fn over(
        lessor: Arc<dyn Lessor>,
        settings: Settings,
        world: World,
    ) -> Result<Self, ConfigError> {
        settings.check()?;
        let World { clock, chance, keeper_on_this_runtime } = world;
        let turns = Turns::default();
        let renewer = Keep { lessor: lessor.clone(), turns: turns.clone(), clock: clock.clone() };
        let keeper = if keeper_on_this_runtime {
            let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
            let (keeper, work) = Keeper::new(clock.clone(), renewer);
            runtime.spawn(work);
            keeper
        } else {
            Keeper::start(clock.clone(), renewer).map_err(|e| ConfigError::System {
                what: "a thread for the watchdog",
                why: e.to_string(),
            })?
        };
        let inner = Inner {
            lessor,
            settings,
            clock,
            chance,
            keeper,
            turns,
            owners: Owners::default(),
            calls: watch::Sender::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A locker on the single server at `url`; `wire` defaults to [`Wire::Redisson`].
    ///
    /// # Errors
    /// [`ConfigError`] for a bad URL or settings out of bounds.
    pub fn single(url: &str, wire: Option<Wire>, settings: Settings) -> Result<Self, ConfigError> {
        Self::replicated(&[url], wire, settings)
    }

    /// A locker on whichever of the servers at `urls` is the master of the others; `wire` defaults to
    /// [`Wire::Redisson`].
    ///
    /// # Errors
    /// [`ConfigError`] for a bad URL, one given twice, or settings out of bounds.
    pub fn replicated(
        urls: &[impl AsRef<str>],
        wire: Option<Wire>,
        settings: Settings,
    ) -> Result<Self, ConfigError> {
        let clock = Clock::system();
        let wire = wire.unwrap_or(Wire::Redisson);
        let node = crate::redis_master(urls, wire, &settings, &clock)?;
        let lessor = crate::Single::new(node, clock.clone(), settings.answer_timeout);
        Self::over(Arc::new(lessor), settings, World { clock, ..World::default() })
    }

    /// Waits for the lock `name`; it is renewed until it is released.
    ///
    /// Await the result, after giving it options: [`Lock::wait`], [`Lock::lease`],
    /// [`Lock::hold_at_most`], [`Lock::owner`].
    ///
    /// # Errors
    /// When awaited: after [`Lock::wait`] [`Error::Busy`] if somebody held it at the last look, else
    /// [`Error::Unreachable`] (too few nodes answered) or [`Error::Refused`] (enough answered, and too few of them
    /// can vote). These come after 30 s in a row without [`Lock::wait`], and at once with
    /// [`Lock::fail_fast`], or if time mends nothing (password, permission, a key of another type, ...; without
    /// [`Lock::wait`] also new nodes). [`Error::Config`] for bad input; [`Error::Lost`] if the owner's outer hold of the
    /// name was lost;
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future gives up the place in the queue, and what might have been
    /// granted is released.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self, name.as_ref())
    }

    /// Takes the lock `name` if it is free: `None` if somebody else holds it.
    ///
    /// Where several ask a quorum at once and none gets a majority, one of them asks again, up to five times within
    /// an eighth of a second; only if votes stay split is `None` said of a lock that nobody holds.
    ///
    /// # Errors
    /// As [`Locker::lock`], but never [`Error::Busy`]; and [`Error::Unreachable`] within the answer timeout.
    ///
    /// # Cancel safety
    /// As [`Locker::lock`].
    pub fn try_lock(&self, name: impl AsRef<str>) -> TryLock {
        TryLock::new(self, name.as_ref())
    }

    /// Waits for the lock, does `work`, releases. The work is dropped when the lock is lost.
    ///
    /// # Errors
    /// As [`Locker::lock`]. After the work is done, its result is dropped: with [`Error::Lost`] if the
    /// release found the lock gone, so that somebody else may have had it; with [`Error::Refused`] if the
    /// servers refused the release (permission, ...), so that the lock stays until its lease has ended,
    /// this time and every time. If only the release is unanswered, the work's result is returned: the
    /// lease ends by itself. To keep the result in each case: lock, [`Guard::run`](crate::Guard::run),
    /// unlock. [`Error::Lost`] also if the lock was lost before the work was done.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future drops the work and posts the release.
    pub async fn run<T, F, Fut>(&self, name: impl AsRef<str>, work: F) -> Result<T, Error>
    where
        F: FnOnce(Watch) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.lock(name).await?;
        let out = guard.run(work(guard.watch())).await?;
        match guard.unlock().await {
            Ok(()) | Err(Error::Unreachable(_)) => Ok(out),
            Err(error) => Err(error),
        }
    }

    /// Who holds `name`, as the nodes say now; `None` if nobody does.
    ///
    /// # Errors
    /// [`Error::Refused`], also for a key that is no lock of this locker's wire; [`Error::Unreachable`],
    /// [`Error::Config`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn holder(&self, name: impl AsRef<str>) -> Result<Option<Holder>, Error> {
        self.inner.open()?;
        self.inner.lessor.inspect(Name::new(name.as_ref())?).await
    }

    /// Whether anybody holds `name`. Old news when you read it: never base safety on it.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn is_locked(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        Ok(self.holder(name).await?.is_some())
    }

    /// Whether `owner`, through this locker, holds `name`, as the nodes say now.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn is_held_by(&self, name: impl AsRef<str>, owner: &Owner) -> Result<bool, Error> {
        self.inner.open()?;
        let name = Name::new(name.as_ref())?;
        let Some(lease) = self.inner.held_by(owner, &name) else { return Ok(false) };
        if lease.check().is_err() {
            return Ok(false);
        }
        let holder = self.inner.lessor.inspect(name).await?;
        Ok(holder.is_some_and(|holder| holder.has(lease.nonce)))
    }

    /// Frees `name`, which anybody may hold, and raises its fencing mark. True if it was held.
    ///
    /// The holder learns of it at its next renewal, and its token is stale as soon as a resource has
    /// seen a newer one.
    ///
    /// It deletes nothing but a lock of this locker's wire. [`Wire::Redlock`](crate::Wire::Redlock) has no mark
    /// of a lock: there any string that expires is taken for one.
    ///
    /// # Errors
    /// As [`Locker::holder`]. Also [`Error::Refused`] with [`NodeProblem::NotALock`](crate::NodeProblem) for a
    /// string without an expiry, and with `BadMark` if the fencing mark cannot be raised.
    ///
    /// # Cancel safety
    /// Once polled, the request may be carried out.
    pub async fn force_unlock(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.inner.open()?;
        self.inner.lessor.force_release(Name::new(name.as_ref())?).await
    }

    /// Vouches for the memory of all nodes: admits them at once, on your word that no lock that was
    /// granted on them can have been forgotten. For new servers, and after repairs by hand.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if a node did not answer: then it waits for the longest lease;
    /// [`Error::Refused`] if one cannot vote as it is set up;
    /// [`ConfigError::NoAdmission`] on a single node or with admission off.
    ///
    /// # Cancel safety
    /// Once polled, some nodes may have been admitted.
    pub async fn provision(&self) -> Result<(), Error> {
        self.inner.open()?;
        self.inner.lessor.provision().await
    }

    /// Which nodes of a quorum may vote now: those whose memory is proven. Restart a node only while
    /// all of them may.
    ///
    /// # Errors
    /// [`ConfigError::NoAdmission`] on a single node or with admission off; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn examine(&self) -> Result<Vec<Examined>, Error> {
        self.inner.open()?;
        self.inner.lessor.examine().await
    }

    /// Takes no new locks and answers no questions from now on, ends all that wait ([`Error::Closed`]), and waits
    /// until the releases of dropped guards, and of what those may have been granted meanwhile, are done on every
    /// node that answers. Nothing is granted after it has returned. Guards that live stay valid. For the end of a
    /// program.
    ///
    /// A call whose future nobody polls any more is waited for no longer than the answer timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: the locker stays closed, the releases go on.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.calls.send_replace(true);
        let here = runtime::timed().is_ok();
        if here {
            let ended = inner.calls.closed();
            drop(tokio::time::timeout(inner.settings.answer_timeout, ended).await);
        }
        inner.keeper.flush().await;
        if here {
            inner.lessor.settle(Lane::Work).await;
        }
    }
}

impl Inner {
    /// Whether a call may go to the nodes: not closed, and on a runtime that can time it.
    pub(super) fn open(&self) -> Result<(), Error> {
        if *self.calls.borrow() {
            return Err(Error::Closed);
        }
        runtime::timed()?;
        Ok(())
    }

    fn held_by(&self, owner: &Owner, name: &Name) -> Option<Arc<Lease>> {
        let place = self.owners.place(owner, name);
        let held = place.held();
        // While another task of this owner still acquires, nothing is held.
        held.try_lock().ok()?.upgrade()
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker")
            .field("nodes", &self.inner.lessor.nodes())
            .field("keeper", &self.inner.keeper)
            .finish_non_exhaustive()
    }
}
