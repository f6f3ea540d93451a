use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorumlock_protocol::Claim;

use crate::{ConfigError, Error, Holder, LockRequest, Owner, TryLockRequest};

/// The handle of one lock, of one name or of several: a [`Locker`](crate::Locker) and names, from
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
///
/// # Several names
/// One guard holds them all, with one token ([`Guard::names`](crate::Guard::names),
/// [`Guard::token`](crate::Guard::token)). It excludes every lock of one of these names, and every
/// lock of several names that shares one. While a call waits it holds none of them, so calls whose
/// names overlap cannot wait for each other in a ring. The lock is lost as soon as one name is. Up
/// to 32 names; a name that is given twice counts once. On a Redis Cluster all names need one hash
/// tag.
///
/// An owner enters again by the same names alone: a lock of one of them waits for the owner's own
/// hold, and [`Mutex::is_held_by`] says no.
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// let guard = locker.mutex(["account/7", "account/8"]).lock().await?;
/// assert_eq!(guard.names().count(), 2);
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Mutex {
    locker: quorumlock_core::Locker,
    names: Arc<[String]>,
}

impl Mutex {
    pub(crate) fn new(locker: quorumlock_core::Locker, names: Vec<String>) -> Self {
        Self { locker, names: names.into() }
    }

    /// The lock's name, with the locker's prefix: the key on the nodes. Of several, the first one
    /// that was given.
    pub fn name(&self) -> &str {
        self.names().next().unwrap_or_default()
    }

    /// All names of the lock, with the locker's prefix, as they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Waits for the lock. The watchdog renews it until it is released.
    ///
    /// Set options on the request, then await it or [`run`](LockRequest::run) work under it:
    /// [`LockRequest::wait`], [`LockRequest::fail_fast`], [`LockRequest::lease`],
    /// [`LockRequest::hold_at_most`], [`LockRequest::hold_at_least`], [`LockRequest::label`],
    /// [`LockRequest::owner`].
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. Bad names are an error here, when the request is
    /// awaited: without a name
    /// [`ConfigError::NoNames`](crate::ConfigError::NoNames), with more than 32
    /// [`ConfigError::TooManyNames`](crate::ConfigError::TooManyNames), on a Redis Cluster
    /// [`ConfigError::NamesInCluster`](crate::ConfigError::NamesInCluster).
    pub fn lock(&self) -> LockRequest {
        self.locker.lock(self.claim())
    }

    /// Takes the lock if it is free; `None` if another client holds it, or one of its names.
    ///
    /// When several clients ask a quorum at once and none gets a majority, one of them asks again,
    /// up to five times within an eighth of a second. Only if the votes stay split does it return
    /// `None` for a lock that nobody holds.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety; [`Mutex::lock`] for the names.
    pub fn try_lock(&self) -> TryLockRequest {
        self.locker.try_lock(self.claim())
    }

    /// The current holder, as the nodes report it; `None` if nobody holds it: no majority can. Of
    /// several names, the holder of the first one in order that is held.
    ///
    /// # Errors
    /// [`Error::Refused`], also for a key that is not a lock of this locker's layout;
    /// [`Error::Unreachable`], [`Error::Config`], [`Error::Closed`]. Where too few nodes tell whether
    /// the name is held, [`NoMajority::holder`](crate::NoMajority) is the holder that most of them
    /// name.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn holder(&self) -> impl Future<Output = Result<Option<Holder>, Error>> + Send + use<> {
        let (locker, each) = (self.locker.clone(), self.each());
        async move { Ok(locker.holders(each?).await?.into_iter().flatten().next()) }
    }

    /// Whether any client holds the lock, or one of its names. The answer may be outdated when it
    /// returns: never base safety on it.
    ///
    /// # Errors
    /// As [`Mutex::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn is_locked(&self) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let holder = self.holder();
        async move { Ok(holder.await?.is_some()) }
    }

    /// Whether `owner` holds the lock through this locker, as the nodes report it.
    ///
    /// # Errors
    /// As [`Mutex::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn is_held_by(
        &self,
        owner: &Owner,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let (locker, claim, owner) = (self.locker.clone(), self.claim(), owner.clone());
        async move { locker.is_held_by(claim?, &owner).await }
    }

    /// Frees the lock, regardless of its holder, and raises its fencing mark. True if it was held. A
    /// handle of several names frees each of them, and returns true if one was held.
    ///
    /// The holder hears of the loss by message at once, if its process has held a lock for a second,
    /// and else at its next renewal. Its token is stale as soon as the resource has seen a larger one.
    ///
    /// It deletes only locks of this locker's layout. [`Layout::Redlock`](crate::Layout::Redlock) does
    /// not mark its keys as locks: there any string with an expiry counts as one.
    ///
    /// # Errors
    /// As [`Mutex::holder`]. Also [`Error::Refused`] with
    /// [`NodeProblem::NotALock`](crate::NodeProblem) for a string without an expiry, and with
    /// `BadMark` if the fencing mark cannot be raised.
    ///
    /// # Cancel safety
    /// Once polled, the request may be carried out even if the future is dropped.
    pub fn force_unlock(&self) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let (locker, each) = (self.locker.clone(), self.each());
        async move { locker.force_unlock(each?).await }
    }

    fn claim(&self) -> Result<Claim, ConfigError> {
        Claim::lock(&*self.names)
    }

    /// The lock of each name alone.
    fn each(&self) -> Result<Vec<Claim>, ConfigError> {
        Ok(self.claim()?.names().cloned().map(Claim::from).collect())
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("names", &self.names).finish_non_exhaustive()
    }
}
