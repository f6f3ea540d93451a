//! The same locks without async: no runtime is needed.
//!
//! ```no_run
//! # fn doc() -> Result<(), quorumlock::Error> {
//! use quorumlock::blocking::Locker;
//!
//! let locker = Locker::single("redis://127.0.0.1")?;
//! let guard = locker.lock("invoice/7").acquire()?;
//! guard.check()?; // renewed between calls by the watchdog's own thread
//! guard.unlock()?;
//! # Ok(()) }
//! ```
//!
//! Every call blocks its thread. In async code that also blocks other tasks, so use
//! [`crate::Locker`] or `spawn_blocking` there.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

mod driver;
mod guard;
mod handles;

pub use guard::Guard;
pub use handles::{Election, HeldLocks, Iter, Mutex, Observer, RwLock, Semaphore};

use driver::Driver;

use crate::kind::{self, Kind, Owned};
use crate::telemetry::Stats;
use crate::{Error, HoldView, Names, Owner, Servers, Ticket};

/// As [`crate::Locker`], without async.
#[derive(Clone, Debug)]
pub struct Locker {
    inner: crate::Locker,
    driver: Arc<Driver>,
}

impl Locker {
    /// As [`crate::Locker::single`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, or when no thread can be started.
    pub fn single(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::new(Servers::single(url))
    }

    /// As [`crate::Locker::quorum`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad list, or when no thread can be started.
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::new(Servers::quorum(urls))
    }

    /// As [`crate::Locker::from_env`].
    ///
    /// # Errors
    /// As there, and [`Error::Config`] when no thread can be started.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_async(crate::Locker::from_env()?)
    }

    /// As [`crate::Locker::new`].
    ///
    /// # Errors
    /// As there, and [`Error::Config`] when no thread can be started.
    pub fn new(servers: Servers) -> Result<Self, Error> {
        Self::from_async(crate::Locker::new(servers)?)
    }

    /// A blocking locker over an async one, which a builder made.
    ///
    /// # Errors
    /// [`Error::Config`] when no thread can be started.
    pub fn from_async(inner: crate::Locker) -> Result<Self, Error> {
        let answer_timeout = inner.answer_timeout();
        Ok(Self { inner, driver: Arc::new(Driver::start(answer_timeout)?) })
    }

    /// Waits for the lock of a name, or of several: set options, then call [`LockRequest::acquire`].
    pub fn lock(&self, names: impl Names) -> LockRequest {
        self.mutex(names).lock()
    }

    /// Takes the lock of a name, or of several, if it is free: set options, then call
    /// [`TryLockRequest::acquire`].
    pub fn try_lock(&self, names: impl Names) -> TryLockRequest {
        self.mutex(names).try_lock()
    }

    /// A handle of the read-write lock `name`, to keep and to pass around. Does no I/O.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.rw_lock(name), &self.driver)
    }

    /// A handle of the permits of `name`, to keep and to pass around. Does no I/O.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.inner.semaphore(name, permits), &self.driver)
    }

    /// A handle of the lock of a name, or of several, to keep and to pass around. Does no I/O.
    pub fn mutex(&self, names: impl Names) -> Mutex {
        Mutex::new(self.inner.mutex(names), &self.driver)
    }

    /// A handle to lead, or to see who leads, under `name`. Does no I/O.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.election(name), &self.driver)
    }

    /// Takes up a lock that another process left: see [`crate::Locker::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self, ticket: &Ticket) -> Result<Guard, Error> {
        let (locker, ticket) = (self.inner.clone(), ticket.clone());
        let inner = self.driver.wait(async move { locker.resume(&ticket).await })??;
        Ok(Guard::new(inner, &self.driver))
    }

    /// Waits for the lock, runs `work`, releases the lock: `lock(names).run(work)`.
    ///
    /// # Errors
    /// As [`LockRequest::run`].
    pub fn run<T>(&self, names: impl Names, work: impl FnOnce(&HoldView) -> T) -> Result<T, Error> {
        self.lock(names).run(work)
    }

    /// Lists the locks that are held: see [`crate::Locker::list`].
    pub fn list(&self) -> HeldLocks {
        HeldLocks::new(self.inner.list(), &self.driver)
    }

    /// Frees a lock that [`Locker::list`] showed, if the same holder still holds it: see
    /// [`crate::Locker::force_unlock_from`].
    ///
    /// # Errors
    /// As there.
    pub fn force_unlock_from(&self, lock: &crate::HeldLock) -> Result<bool, Error> {
        let (inner, lock) = (self.inner.clone(), lock.clone());
        self.driver.wait(async move { inner.force_unlock_from(&lock).await })?
    }

    /// As [`crate::Locker::stats`].
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// As [`crate::Locker::ping`].
    ///
    /// # Errors
    /// As there.
    pub fn ping(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.ping().await })?
    }

    /// As [`crate::Locker::close`]: rejects new calls, ends all waiting calls, and waits
    /// until the releases are done.
    ///
    /// # Errors
    /// [`Error::Closed`] if the driver's thread is gone.
    pub fn close(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.close().await })
    }

    /// As [`crate::Locker::node_status`].
    ///
    /// # Errors
    /// As there.
    pub fn node_status(&self) -> Result<Vec<crate::admission::NodeStatusReport>, Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.node_status().await })?
    }

    /// As [`crate::Locker::admit_nodes`].
    ///
    /// # Errors
    /// As there.
    pub fn admit_nodes(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.admit_nodes().await })?
    }

    /// As [`crate::Locker::force_admit_nodes`].
    ///
    /// # Errors
    /// As there.
    pub fn force_admit_nodes(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.force_admit_nodes().await })?
    }
}

/// As [`crate::LockRequest`], without async.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct LockRequest<K: Kind = kind::Lock> {
    inner: crate::LockRequest<K>,
    driver: Arc<Driver>,
}

/// As [`crate::TryLockRequest`], without async.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct TryLockRequest<K: Kind = kind::Lock> {
    inner: crate::TryLockRequest<K>,
    driver: Arc<Driver>,
}

macro_rules! options {
    ($request:ident) => {
        impl<K: Kind> $request<K> {
            /// As [`crate::LockRequest::lease`].
            pub fn lease(mut self, lease: Duration) -> Self {
                self.inner = self.inner.lease(lease);
                self
            }

            /// As [`crate::LockRequest::hold_at_most`].
            pub fn hold_at_most(mut self, limit: Duration) -> Self {
                self.inner = self.inner.hold_at_most(limit);
                self
            }

            /// As [`crate::LockRequest::hold_at_least`].
            pub fn hold_at_least(mut self, time: Duration) -> Self {
                self.inner = self.inner.hold_at_least(time);
                self
            }

            /// As [`crate::LockRequest::label`].
            pub fn label(mut self, label: &str) -> Self {
                self.inner = self.inner.label(label);
                self
            }
        }

        impl<K: Owned> $request<K> {
            /// As [`crate::LockRequest::owner`]. One owner per thread gives the re-entry of Java's
            /// locks.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.inner = self.inner.owner(owner);
                self
            }
        }
    };
}

options!(LockRequest);
options!(TryLockRequest);

impl<K: Kind> LockRequest<K> {
    /// As [`crate::LockRequest::wait`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.inner = self.inner.wait(wait);
        self
    }

    /// As [`crate::LockRequest::fail_fast`].
    pub fn fail_fast(mut self) -> Self {
        self.inner = self.inner.fail_fast();
        self
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// As [`crate::LockRequest`].
    pub fn acquire(self) -> Result<Guard<K>, Error> {
        let Self { inner, driver } = self;
        let inner = driver.wait(inner.into_future())??;
        Ok(Guard::new(inner, &driver))
    }

    /// Waits for the lock, runs `work`, releases the lock. Blocking work cannot be dropped when the
    /// lock is lost: it must call [`HoldView::check`] itself.
    ///
    /// # Errors
    /// As [`LockRequest::acquire`]. Also [`Error::Lost`] if the release found the lock gone, and
    /// [`Error::Refused`] if the servers refused the release: the work is done then, and its result
    /// is discarded. If the release is only unanswered, the work's result is returned.
    pub fn run<T>(self, work: impl FnOnce(&HoldView) -> T) -> Result<T, Error> {
        run(self.acquire()?, work)
    }
}

impl<K: Kind> TryLockRequest<K> {
    /// Takes the lock if it is free; `None` if another client holds it.
    ///
    /// # Errors
    /// As [`LockRequest::acquire`].
    pub fn acquire(self) -> Result<Option<Guard<K>>, Error> {
        let Self { inner, driver } = self;
        let taken = driver.wait(inner.into_future())??;
        Ok(taken.map(|inner| Guard::new(inner, &driver)))
    }

    /// As [`LockRequest::run`], if the lock is free; `None`, and no work, if another client holds
    /// it.
    ///
    /// # Errors
    /// As [`LockRequest::run`].
    pub fn run<T>(self, work: impl FnOnce(&HoldView) -> T) -> Result<Option<T>, Error> {
        self.acquire()?.map(|guard| run(guard, work)).transpose()
    }
}

fn run<T, K: Kind>(guard: Guard<K>, work: impl FnOnce(&HoldView) -> T) -> Result<T, Error> {
    let out = work(&guard.view());
    match guard.unlock() {
        Ok(()) | Err(Error::Unreachable(_)) => Ok(out),
        Err(error) => Err(error),
    }
}

/// As [`crate::PermitGuard`], without async.
pub type PermitGuard = Guard<kind::Permit>;

/// As [`crate::ReadGuard`], without async.
pub type ReadGuard = Guard<kind::Read>;

/// As [`crate::WriteGuard`], without async.
pub type WriteGuard = Guard<kind::Write>;
