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
//! Every call blocks its thread: in async code that blocks the tasks around it, so use
//! [`crate::Locker`] there, or `spawn_blocking`.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::{ConfigError, Error, Fence, Holder, Lost, Nonce, Owner, Watch};

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
        Self::new(crate::Locker::single(url)?)
    }

    /// As [`crate::Locker::replicated`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad list, or when no thread can be started.
    pub fn replicated<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::new(crate::Locker::replicated(urls)?)
    }

    /// As [`crate::Locker::quorum`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad list, or when no thread can be started.
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::new(crate::Locker::quorum(urls)?)
    }

    /// The blocking face of a locker, which may be one with options of its own.
    ///
    /// # Errors
    /// [`Error::Config`] when no thread can be started.
    pub fn new(inner: crate::Locker) -> Result<Self, Error> {
        Ok(Self { inner, driver: Arc::new(Driver::start()?) })
    }

    /// Waits for the lock `name`: give it options, then call [`Lock::acquire`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock { order: self.inner.lock(name), driver: self.driver.clone() }
    }

    /// Takes the lock `name` if it is free: give it options, then call [`TryLock::acquire`].
    pub fn try_lock(&self, name: impl AsRef<str>) -> TryLock {
        TryLock { order: self.inner.try_lock(name), driver: self.driver.clone() }
    }

    /// Waits for the lock, does `work`, releases. Blocking work cannot be dropped: it must look at
    /// [`Watch::check`] itself.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`Error::Lost`] if the release found the lock gone, and
    /// [`Error::Refused`] if the servers refused it: the work is done then, and its result is dropped. If
    /// only the release is unanswered, the work's result is returned.
    pub fn run<T>(
        &self,
        name: impl AsRef<str>,
        work: impl FnOnce(&Watch) -> T,
    ) -> Result<T, Error> {
        let guard = self.lock(name).acquire()?;
        let out = work(&guard.watch());
        match guard.unlock() {
            Ok(()) | Err(Error::Unreachable(_)) => Ok(out),
            Err(error) => Err(error),
        }
    }

    /// Who holds `name`, as the nodes say now.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Unreachable`], [`Error::Config`].
    pub fn holder(&self, name: impl AsRef<str>) -> Result<Option<Holder>, Error> {
        let (inner, name) = (self.inner.clone(), name.as_ref().to_owned());
        self.driver.wait(async move { inner.holder(name).await })?
    }

    /// Whether anybody holds `name`.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    pub fn is_locked(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        let (inner, name) = (self.inner.clone(), name.as_ref().to_owned());
        self.driver.wait(async move { inner.is_locked(name).await })?
    }

    /// Whether `owner`, through this locker, holds `name`.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    pub fn is_held_by(&self, name: impl AsRef<str>, owner: &Owner) -> Result<bool, Error> {
        let (inner, name, owner) = (self.inner.clone(), name.as_ref().to_owned(), owner.clone());
        self.driver.wait(async move { inner.is_held_by(name, &owner).await })?
    }

    /// Frees `name`, whoever holds it; true if it was held.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    pub fn force_unlock(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        let (inner, name) = (self.inner.clone(), name.as_ref().to_owned());
        self.driver.wait(async move { inner.force_unlock(name).await })?
    }

    /// As [`quorumlock_core::Locker::close`]: takes no new locks, ends all that wait, and waits until releases are done.
    ///
    /// # Errors
    /// [`Error::Closed`] if the driver's thread is gone.
    pub fn close(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.close().await })
    }

    /// As [`quorumlock_core::Locker::examine`].
    ///
    /// # Errors
    /// As there.
    pub fn examine(&self) -> Result<Vec<crate::admission::Examined>, Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.examine().await })?
    }

    /// As [`quorumlock_core::Locker::provision`].
    ///
    /// # Errors
    /// As there.
    pub fn provision(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.driver.wait(async move { inner.provision().await })?
    }
}

/// As [`crate::Lock`], without async.
#[derive(Debug)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct Lock {
    order: crate::Lock,
    driver: Arc<Driver>,
}

/// As [`crate::TryLock`], without async.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct TryLock {
    order: crate::TryLock,
    driver: Arc<Driver>,
}

macro_rules! options {
    ($order:ident) => {
        impl $order {
            /// As [`crate::Lock::lease`].
            pub fn lease(mut self, lease: Duration) -> Self {
                self.order = self.order.lease(lease);
                self
            }

            /// As [`crate::Lock::hold_at_most`].
            pub fn hold_at_most(mut self, limit: Duration) -> Self {
                self.order = self.order.hold_at_most(limit);
                self
            }

            /// As [`crate::Lock::owner`]. One owner per thread gives the re-entry of Java's locks.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.order = self.order.owner(owner);
                self
            }
        }
    };
}

options!(Lock);
options!(TryLock);

impl Lock {
    /// As [`crate::Lock::wait`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.order = self.order.wait(wait);
        self
    }

    /// As [`crate::Lock::fail_fast`].
    pub fn fail_fast(mut self) -> Self {
        self.order = self.order.fail_fast();
        self
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// As [`quorumlock_core::Locker::lock`].
    pub fn acquire(self) -> Result<Guard, Error> {
        let Self { order, driver } = self;
        let inner = driver.wait(order.into_future())??;
        Ok(Guard { inner, driver })
    }
}

impl TryLock {
    /// Takes the lock if it is free: `None` if somebody else holds it.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire(self) -> Result<Option<Guard>, Error> {
        let Self { order, driver } = self;
        let taken = driver.wait(order.into_future())??;
        Ok(taken.map(|inner| Guard { inner, driver }))
    }
}

/// As [`crate::Guard`], without async.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    inner: crate::Guard,
    driver: Arc<Driver>,
}

impl Guard {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The fencing token of this acquisition: send it with every write.
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// What the nodes know this hold by; see [`crate::Guard::nonce`].
    pub fn nonce(&self) -> Nonce {
        self.inner.nonce()
    }

    /// How long the lock is surely ours from now on; zero once lost.
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Is the lock ours at this instant?
    ///
    /// # Errors
    /// [`Lost`], for ever after the first time.
    pub fn check(&self) -> Result<(), Lost> {
        self.inner.check()
    }

    /// A view of the lock for other threads.
    pub fn watch(&self) -> Watch {
        self.inner.watch()
    }

    /// How many guards of the same owner share this lock.
    pub fn hold_count(&self) -> u32 {
        self.inner.hold_count()
    }

    /// Lets others have the lock, and takes it again: see [`crate::Guard::bump`].
    pub fn bump(self) -> Lock {
        let Self { inner, driver } = self;
        Lock { order: inner.bump(), driver }
    }

    /// Releases the lock, and waits until that is confirmed.
    ///
    /// # Errors
    /// As [`crate::Guard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        let Self { inner, driver } = self;
        driver.wait(inner.unlock())?
    }
}

/// A runtime of one thread that drives the connections.
struct Driver {
    /// Taken only by the drop.
    runtime: Option<Runtime>,
}

impl Driver {
    fn start() -> Result<Self, ConfigError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("quorumlock-blocking")
            .enable_all()
            .build()
            .map_err(|e| ConfigError::System { what: "a thread", why: e.to_string() })?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs `work` on the driver's thread; the caller's may be any, also one of another runtime.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let (done, out) = std::sync::mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().ok_or(Error::Closed)?;
        runtime.spawn(async move {
            // Nobody waits any more only if the caller's thread is gone.
            let _ = done.send(work.await);
        });
        out.recv().map_err(|_| Error::Closed)
    }
}

impl Drop for Driver {
    /// Not waited for, so that a drop inside an async runtime neither blocks nor panics.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
