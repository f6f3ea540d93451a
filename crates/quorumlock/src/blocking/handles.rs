use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};

use super::driver::Driver;
use super::{LockRequest, TryLockRequest};
use crate::{Error, Holder, Owner, kind};

/// As [`crate::Mutex`], without async.
#[derive(Clone, Debug)]
pub struct Mutex {
    inner: crate::Mutex,
    driver: Arc<Driver>,
}

impl Mutex {
    pub(super) fn new(inner: crate::Mutex, driver: &Arc<Driver>) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The lock's name, with the locker's prefix. Of several, the first one that was given.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// All names of the lock, with the locker's prefix, as they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.names()
    }

    /// Waits for the lock: set options, then call [`LockRequest::acquire`].
    pub fn lock(&self) -> LockRequest {
        LockRequest { inner: self.inner.lock(), driver: self.driver.clone() }
    }

    /// Takes the lock if it is free: set options, then call [`TryLockRequest::acquire`].
    pub fn try_lock(&self) -> TryLockRequest {
        TryLockRequest { inner: self.inner.try_lock(), driver: self.driver.clone() }
    }

    /// Who holds the lock: see [`crate::Mutex::holder`].
    ///
    /// # Errors
    /// As there.
    pub fn holder(&self) -> Result<Option<Holder>, Error> {
        self.driver.wait(self.inner.holder())?
    }

    /// Whether any client holds the lock: see [`crate::Mutex::is_locked`].
    ///
    /// # Errors
    /// As there.
    pub fn is_locked(&self) -> Result<bool, Error> {
        self.driver.wait(self.inner.is_locked())?
    }

    /// Whether `owner` holds the lock: see [`crate::Mutex::is_held_by`].
    ///
    /// # Errors
    /// As there.
    pub fn is_held_by(&self, owner: &Owner) -> Result<bool, Error> {
        self.driver.wait(self.inner.is_held_by(owner))?
    }

    /// Frees the lock: see [`crate::Mutex::force_unlock`].
    ///
    /// # Errors
    /// As there.
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.driver.wait(self.inner.force_unlock())?
    }
}

/// As [`crate::Election`], without async.
#[derive(Clone, Debug)]
pub struct Election {
    inner: crate::Election,
    driver: Arc<Driver>,
}

impl Election {
    pub(super) fn new(inner: crate::Election, driver: &Arc<Driver>) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The name, with the locker's prefix.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Waits until this process leads: set options, then call [`LockRequest::acquire`]. The token of the
    /// guard is the term; its `unlock` resigns.
    pub fn campaign(&self) -> LockRequest {
        LockRequest { inner: self.inner.campaign(), driver: self.driver.clone() }
    }

    /// Who leads now; `None` if nobody does.
    ///
    /// # Errors
    /// As [`crate::Election::leader`].
    pub fn leader(&self) -> Result<Option<Holder>, Error> {
        self.driver.wait(self.inner.leader())?
    }

    /// Follows who leads: see [`crate::Election::observe`].
    pub fn observe(&self) -> Observer {
        Iter::new(self.inner.observe(), &self.driver)
    }
}

/// As [`crate::RwLock`], without async.
#[derive(Clone, Debug)]
pub struct RwLock {
    inner: crate::RwLock,
    driver: Arc<Driver>,
}

impl RwLock {
    pub(super) fn new(inner: crate::RwLock, driver: &Arc<Driver>) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The lock's name, with the locker's prefix.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Waits to read: set options, then call [`LockRequest::acquire`].
    pub fn read(&self) -> LockRequest<kind::Read> {
        LockRequest { inner: self.inner.read(), driver: self.driver.clone() }
    }

    /// Waits to write: set options, then call [`LockRequest::acquire`].
    pub fn write(&self) -> LockRequest<kind::Write> {
        LockRequest { inner: self.inner.write(), driver: self.driver.clone() }
    }

    /// Reads if no writer is there: set options, then call [`TryLockRequest::acquire`].
    pub fn try_read(&self) -> TryLockRequest<kind::Read> {
        TryLockRequest { inner: self.inner.try_read(), driver: self.driver.clone() }
    }

    /// Writes if nobody is there: set options, then call [`TryLockRequest::acquire`].
    pub fn try_write(&self) -> TryLockRequest<kind::Write> {
        TryLockRequest { inner: self.inner.try_write(), driver: self.driver.clone() }
    }

    /// Who holds the lock: see [`crate::RwLock::holder`].
    ///
    /// # Errors
    /// As there.
    pub fn holder(&self) -> Result<Option<Holder>, Error> {
        self.driver.wait(self.inner.holder())?
    }

    /// Frees the lock: see [`crate::RwLock::force_unlock`].
    ///
    /// # Errors
    /// As there.
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.driver.wait(self.inner.force_unlock())?
    }
}

/// As [`crate::Semaphore`], without async.
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: crate::Semaphore,
    driver: Arc<Driver>,
}

impl Semaphore {
    pub(super) fn new(inner: crate::Semaphore, driver: &Arc<Driver>) -> Self {
        Self { inner, driver: driver.clone() }
    }

    /// The name of the permits, with the locker's prefix.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// How many permits there are.
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// Waits for a permit: set options, then call [`LockRequest::acquire`].
    pub fn acquire(&self) -> LockRequest<kind::Permit> {
        LockRequest { inner: self.inner.acquire(), driver: self.driver.clone() }
    }

    /// Takes a permit if one is free: set options, then call [`TryLockRequest::acquire`].
    pub fn try_acquire(&self) -> TryLockRequest<kind::Permit> {
        TryLockRequest { inner: self.inner.try_acquire(), driver: self.driver.clone() }
    }

    /// The current holder of each slot: see [`crate::Semaphore::holders`].
    ///
    /// # Errors
    /// As there.
    pub fn holders(&self) -> Result<Vec<Option<Holder>>, Error> {
        self.driver.wait(self.inner.holders())?
    }

    /// Frees one slot: see [`crate::Semaphore::force_release`].
    ///
    /// # Errors
    /// As there.
    pub fn force_release(&self, slot: u16) -> Result<bool, Error> {
        self.driver.wait(self.inner.force_release(slot))?
    }
}

/// As [`crate::HeldLocks`], without async.
pub type HeldLocks = Iter<crate::HeldLocks>;

/// As [`crate::Observer`], without async. A change is awaited for as long as it takes.
pub type Observer = Iter<crate::Observer>;

/// A stream, one item after the other.
#[derive(Debug)]
pub struct Iter<S> {
    /// `None` once the driver is gone.
    stream: Option<S>,
    driver: Arc<Driver>,
}

impl<S> Iter<S> {
    pub(super) fn new(stream: S, driver: &Arc<Driver>) -> Self {
        Self { stream: Some(stream), driver: driver.clone() }
    }
}

impl<T, S> Iterator for Iter<S>
where
    T: Send + 'static,
    S: Stream<Item = Result<T, Error>> + Unpin + Send + 'static,
{
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut stream = self.stream.take()?;
        match self.driver.wait(async move { (stream.next().await, stream) }) {
            Ok((next, stream)) => {
                self.stream = Some(stream);
                next
            }
            Err(error) => Some(Err(error)),
        }
    }
}
