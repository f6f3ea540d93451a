use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorumlock_protocol::Claim;

use crate::{ConfigError, Error, Holder, LockRequest, Name, TryLockRequest, kind};

/// The handle of one read-write lock: a [`Locker`](crate::Locker) and a name, from
/// [`Locker::rw_lock`](crate::Locker::rw_lock).
///
/// Readers do not exclude each other; a writer excludes all. A writer that waits keeps new readers out.
/// A reader is renewed, can be lost and has a token, as every holder. A resource that checks tokens
/// refuses a reader whose token is below that of the last write (docs/FENCING.md).
///
/// A name is a lock or a read-write lock, never both: while it is held as one, a request for the other
/// fails with [`Error::Refused`]. A Redisson read-write lock is another thing.
///
/// An [owner](LockRequest::owner) enters again in the same mode. In the other one it would wait for
/// itself, which is an error: [`ConfigError::Upgrade`](crate::ConfigError::Upgrade),
/// [`ConfigError::ReadWhileWriting`](crate::ConfigError::ReadWhileWriting). A writer becomes a reader
/// by [`Guard::downgrade`](crate::WriteGuard::downgrade).
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
/// let writer = catalog.write().await?;
/// let reader = writer.downgrade().await?; // no writer comes in between
/// reader.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RwLock {
    locker: quorumlock_core::Locker,
    name: Arc<str>,
}

impl RwLock {
    pub(crate) fn new(locker: quorumlock_core::Locker, name: String) -> Self {
        Self { locker, name: name.into() }
    }

    /// The lock's name, with the locker's prefix: the key on the nodes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until no writer holds the lock, and takes it for reading.
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. A bad name is an error here, when the request is
    /// awaited.
    pub fn read(&self) -> LockRequest<kind::Read> {
        self.locker.lock(self.claim(Claim::read))
    }

    /// Waits until nobody holds the lock, and takes it for writing.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn write(&self) -> LockRequest<kind::Write> {
        self.locker.lock(self.claim(Claim::write))
    }

    /// Takes the lock for reading; `None` if a writer holds it, or waits for it.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_read(&self) -> TryLockRequest<kind::Read> {
        self.locker.try_lock(self.claim(Claim::read))
    }

    /// Takes the lock for writing if nobody holds it; else `None`.
    ///
    /// # Errors
    /// As [`RwLock::try_read`].
    pub fn try_write(&self) -> TryLockRequest<kind::Write> {
        self.locker.try_lock(self.claim(Claim::write))
    }

    /// Who holds the lock, as the nodes report it; `None` if nobody does. Several readers are one holder,
    /// `readers`, and [`Holder::holds`] is their number.
    ///
    /// # Errors
    /// As [`Mutex::holder`](crate::Mutex::holder).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn holder(&self) -> impl Future<Output = Result<Option<Holder>, Error>> + Send + use<> {
        let (locker, claim) = (self.locker.clone(), self.claim(Claim::write));
        async move { Ok(locker.holders([claim?]).await?.into_iter().flatten().next()) }
    }

    /// Frees the lock, regardless of its holders, and raises the fencing mark. True if it was held. See
    /// [`Mutex::force_unlock`](crate::Mutex::force_unlock).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub fn force_unlock(&self) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let (locker, claim) = (self.locker.clone(), self.claim(Claim::write));
        async move { locker.force_unlock([claim?]).await }
    }

    fn claim(&self, of: fn(Name) -> Claim) -> Result<Claim, ConfigError> {
        Name::new(&self.name).map(of)
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("name", &self.name).finish_non_exhaustive()
    }
}
