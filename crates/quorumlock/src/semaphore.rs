use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorumlock_protocol::Claim;

use crate::{ConfigError, Error, Holder, LockRequest, Name, TryLockRequest, kind};

/// The handle of the permits of one name: a [`Locker`](crate::Locker), a name and a number, from
/// [`Locker::semaphore`](crate::Locker::semaphore).
///
/// At most so many permits are held at a time. Each has a slot, a number from 0 to one less, that no
/// other valid permit of the name has ([`Guard::slot`](crate::PermitGuard::slot)): it can be the number
/// of a worker, a shard or a port. A slot is a lock of its own, so a permit is renewed, lost and fenced
/// as a lock is, on a quorum, too. A lock and the permits of one name do not exclude each other.
///
/// All clients of a name give the same number, 1 to 256. While they differ, the largest one bounds how
/// many permits are held. Permits have no owner: two calls of one task take two.
///
/// Cheap to clone; clones name the same permits. It holds nothing: [permits](crate::PermitGuard) do.
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// let exports = locker.semaphore("exports", 5);
/// let permit = exports.acquire().await?;
/// println!("worker {} of 5", permit.slot());
/// permit.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    locker: quorumlock_core::Locker,
    name: Arc<str>,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(locker: quorumlock_core::Locker, name: String, permits: u32) -> Self {
        Self { locker, name: name.into(), permits }
    }

    /// The name of the permits, with the locker's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many permits there are.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. A bad name or number is an error here, when the
    /// request is awaited: [`ConfigError::BadPermits`](crate::ConfigError::BadPermits).
    pub fn acquire(&self) -> LockRequest<kind::Permit> {
        self.locker.lock(self.claim())
    }

    /// Takes a permit if one is free; `None` if other clients, or other tasks of this one, hold them all.
    ///
    /// `None` is also the answer if several clients take the last permits at once: a call asks for three
    /// slots at most, those that the nodes said are free.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety; [`Semaphore::acquire`] for the number.
    pub fn try_acquire(&self) -> TryLockRequest<kind::Permit> {
        self.locker.try_lock(self.claim())
    }

    /// The current holder of each slot, in order, as the nodes report them.
    ///
    /// # Errors
    /// As [`Mutex::holder`](crate::Mutex::holder);
    /// [`ConfigError::BadPermits`](crate::ConfigError::BadPermits).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn holders(
        &self,
    ) -> impl Future<Output = Result<Vec<Option<Holder>>, Error>> + Send + use<> {
        let (locker, claim) = (self.locker.clone(), self.claim());
        async move { locker.holders(claim?.every_slot()).await }
    }

    /// Frees one slot, regardless of its holder, and raises the fencing mark. True if the slot was held. It may
    /// be a slot beyond the number of permits, which a program that gives a larger number holds. See
    /// [`Mutex::force_unlock`](crate::Mutex::force_unlock).
    ///
    /// # Errors
    /// As there; [`ConfigError::BadSlot`](crate::ConfigError::BadSlot) for a slot above 255.
    ///
    /// # Cancel safety
    /// As there.
    pub fn force_release(
        &self,
        slot: u16,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let claim = Name::new(&self.name).and_then(|name| Claim::one_slot(name, slot));
        let locker = self.locker.clone();
        async move { locker.force_unlock([claim?]).await }
    }

    fn claim(&self) -> Result<Claim, ConfigError> {
        Claim::any_slot(Name::new(&self.name)?, self.permits)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.name)
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}
