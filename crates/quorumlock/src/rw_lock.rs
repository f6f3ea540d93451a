use std::fmt;
use std::sync::Arc;

use crate::{Error, Holder, LockRequest, TryLockRequest, kind};

/// The handle of one read-write lock: a [`Locker`](crate::Locker) and a name, from
/// [`Locker::rw_lock`](crate::Locker::rw_lock).
///
/// Cheap to clone; clones name the same lock. It holds nothing: guards do. Unlike the locks of std and
/// tokio it contains no data, and its holds are leases, which can be lost
/// ([`Guard::lost`](crate::Guard::lost)).
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// let catalog = locker.rw_lock("catalog");
/// let reader = catalog.read().await?;
/// reader.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RwLock {
    locker: quorumlock_core::Locker,
    name: Arc<str>,
}

impl RwLock {
    pub(crate) fn new(locker: quorumlock_core::Locker, name: &str) -> Self {
        Self { locker, name: name.into() }
    }

    /// The lock's name, with the locker's prefix: the key on the nodes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits to read, as [`Locker::read`](crate::Locker::read).
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. A bad name is an error here, when the request is
    /// awaited.
    pub fn read(&self) -> LockRequest<kind::Read> {
        self.locker.read(&*self.name)
    }

    /// Waits to write, as [`Locker::write`](crate::Locker::write).
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn write(&self) -> LockRequest<kind::Write> {
        self.locker.write(&*self.name)
    }

    /// Reads if no writer is there, as [`Locker::try_read`](crate::Locker::try_read).
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_read(&self) -> TryLockRequest<kind::Read> {
        self.locker.try_read(&*self.name)
    }

    /// Writes if nobody is there, as [`Locker::try_write`](crate::Locker::try_write).
    ///
    /// # Errors
    /// As [`RwLock::try_read`].
    pub fn try_write(&self) -> TryLockRequest<kind::Write> {
        self.locker.try_write(&*self.name)
    }

    /// Who holds the lock, as the nodes report it; `None` if nobody does. Several readers are one holder,
    /// `readers`, and [`Holder::holds`] is their number.
    ///
    /// # Errors
    /// As [`Locker::holder`](crate::Locker::holder).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        self.locker.read_write_holder(&*self.name).await
    }

    /// Frees the lock, regardless of its holders, and raises the fencing mark. True if it was held. See
    /// [`Locker::force_unlock`](crate::Locker::force_unlock).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        self.locker.force_unlock_read_write(&*self.name).await
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("name", &self.name).finish_non_exhaustive()
    }
}
