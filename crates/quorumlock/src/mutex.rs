use std::fmt;
use std::sync::Arc;

use crate::{LockRequest, TryLockRequest};

/// The handle of one lock: a [`Locker`](crate::Locker) and a name, from
/// [`Locker::mutex`](crate::Locker::mutex).
///
/// Cheap to clone; clones name the same lock. It holds nothing: guards do. Unlike the mutexes of
/// std and tokio it contains no data, and its locks are leases, which can be lost
/// ([`Guard::lost`](crate::Guard::lost)).
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// use std::time::Duration;
///
/// let invoice = locker.mutex("invoice/7");
/// let guard = invoice.lock().await?;
/// guard.unlock().await?;
/// match invoice.lock().wait(Duration::from_secs(5)).await {
///     Ok(guard) => guard.unlock().await?,
///     Err(error) if error.is_busy() => println!("{error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Mutex {
    locker: quorumlock_core::Locker,
    name: Arc<str>,
}

impl Mutex {
    pub(crate) fn new(locker: quorumlock_core::Locker, name: &str) -> Self {
        Self { locker, name: name.into() }
    }

    /// The lock's name, with the locker's prefix: the key on the nodes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the lock, as [`Locker::lock`](crate::Locker::lock).
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. A bad name is an error here, when the request
    /// is awaited.
    pub fn lock(&self) -> LockRequest {
        self.locker.lock(&*self.name)
    }

    /// Takes the lock if it is free, as [`Locker::try_lock`](crate::Locker::try_lock).
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_lock(&self) -> TryLockRequest {
        self.locker.try_lock(&*self.name)
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("name", &self.name).finish_non_exhaustive()
    }
}
