use std::fmt;
use std::sync::Arc;

use crate::{Error, Holder, LockRequest, TryLockRequest, kind};

/// The handle of the permits of one name: a [`Locker`](crate::Locker), a name and a number, from
/// [`Locker::semaphore`](crate::Locker::semaphore).
///
/// Cheap to clone; clones name the same permits. It holds nothing: [permits](crate::PermitGuard) do. They are
/// leases, which can be lost ([`Guard::lost`](crate::Guard::lost)).
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// let exports = locker.semaphore("exports", 5);
/// let permit = exports.acquire().await?;
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
    pub(crate) fn new(locker: quorumlock_core::Locker, name: &str, permits: u32) -> Self {
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

    /// Waits for a permit, as [`Locker::permit`](crate::Locker::permit).
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. A bad name or number is an error here, when the
    /// request is awaited.
    pub fn acquire(&self) -> LockRequest<kind::Permit> {
        self.locker.permit(&*self.name, self.permits)
    }

    /// Takes a permit if one is free, as [`Locker::try_permit`](crate::Locker::try_permit).
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_acquire(&self) -> TryLockRequest<kind::Permit> {
        self.locker.try_permit(&*self.name, self.permits)
    }

    /// The current holder of each slot, in order, as the nodes report them.
    ///
    /// # Errors
    /// As [`Locker::holder`](crate::Locker::holder);
    /// [`ConfigError::BadPermits`](crate::ConfigError::BadPermits).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn holders(&self) -> Result<Vec<Option<Holder>>, Error> {
        self.locker.permit_holders(&*self.name, self.permits).await
    }

    /// Frees one slot, regardless of its holder, and raises the fencing mark. True if the slot was held. It may
    /// be a slot beyond the number of permits, which a program that gives a larger number holds. See
    /// [`Locker::force_unlock`](crate::Locker::force_unlock).
    ///
    /// # Errors
    /// As there; [`ConfigError::BadSlot`](crate::ConfigError::BadSlot) for a slot above 255.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn force_release(&self, slot: u16) -> Result<bool, Error> {
        self.locker.force_release_permit(&*self.name, slot).await
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
