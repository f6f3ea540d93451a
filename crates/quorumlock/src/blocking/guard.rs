use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use super::driver::Driver;
use crate::kind::{self, Kind};
use crate::{Error, FencingToken, HoldView, LossReason, Lost, Nonce, Ticket};

/// As [`crate::Guard`], without async. Its drop waits for the release, for the answer timeout at most: a
/// process that ends then leaves no lock behind.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<K: Kind = kind::Lock> {
    /// `None` only while the guard ends.
    inner: Option<crate::Guard<K>>,
    driver: Arc<Driver>,
}

impl Guard<kind::Permit> {
    /// The number of the slot that this permit holds: see [`crate::Guard::slot`].
    pub fn slot(&self) -> u16 {
        self.held().slot()
    }
}

impl Guard<kind::Lock> {
    /// Leaves the lock held for another process: see [`crate::Guard::into_ticket`].
    ///
    /// # Errors
    /// As there.
    pub fn into_ticket(mut self) -> Result<Ticket, Error> {
        self.end().into_ticket()
    }
}

impl Guard<kind::Write> {
    /// Goes on as a reader, without a gap: see [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(mut self) -> Result<Guard<kind::Read>, Error> {
        let downgrade = self.end().downgrade();
        let inner = self.driver.wait(downgrade)??;
        Ok(Guard::new(inner, &self.driver))
    }
}

impl<K: Kind> Guard<K> {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.held().name()
    }

    /// All names that the lock holds, in order: one, or several.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.held().names()
    }

    /// The fencing token of this acquisition: send it with every write.
    pub fn token(&self) -> FencingToken {
        self.held().token()
    }

    /// The nonce by which the nodes know this hold: see [`crate::Guard::nonce`].
    pub fn nonce(&self) -> Nonce {
        self.held().nonce()
    }

    /// How long from now the lock is certainly held; zero once it is lost.
    pub fn valid_for(&self) -> Duration {
        self.held().valid_for()
    }

    /// Checks that the lock is held at this instant.
    ///
    /// # Errors
    /// [`Lost`] if it is not. After the first time, every later check fails too.
    pub fn check(&self) -> Result<(), Lost> {
        self.held().check()
    }

    /// Whether the lock is held at this instant.
    pub fn is_valid(&self) -> bool {
        self.held().is_valid()
    }

    /// Whether the lock is held, but its renewals fail: see [`crate::Guard::is_at_risk`].
    pub fn is_at_risk(&self) -> bool {
        self.held().is_at_risk()
    }

    /// Why the lock will end if it is not renewed: see [`crate::Guard::loss_ahead`].
    pub fn loss_ahead(&self) -> LossReason {
        self.held().loss_ahead()
    }

    /// Blocks until the lock is no longer ours; returns at once if it is lost already.
    ///
    /// # Errors
    /// [`Error::Closed`] if the driver's thread is gone.
    pub fn lost(&self) -> Result<Lost, Error> {
        self.driver.wait(self.held().view().into_future())
    }

    /// A token that is cancelled when the lock is no longer ours: see
    /// [`crate::Guard::cancellation_token`].
    #[cfg(feature = "tokio-util")]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.held().cancellation_token()
    }

    /// Renews the lease now, and waits for the outcome: see [`crate::Guard::renew`].
    ///
    /// # Errors
    /// As there.
    pub fn renew(&self) -> Result<(), Error> {
        self.driver.wait(self.held().renew())?
    }

    /// A view of the lock for other threads.
    pub fn view(&self) -> HoldView {
        self.held().view()
    }

    /// How many guards of the same owner share this lock.
    pub fn hold_count(&self) -> u32 {
        self.held().hold_count()
    }

    /// Releases the lock, and waits until the release is confirmed.
    ///
    /// # Errors
    /// As [`crate::Guard::unlock`].
    pub fn unlock(mut self) -> Result<(), Error> {
        let unlock = self.end().unlock();
        self.driver.wait(unlock)?
    }

    pub(super) fn new(inner: crate::Guard<K>, driver: &Arc<Driver>) -> Self {
        Self { inner: Some(inner), driver: driver.clone() }
    }

    fn held(&self) -> &crate::Guard<K> {
        self.inner.as_ref().expect("held until the guard ends")
    }

    fn end(&mut self) -> crate::Guard<K> {
        self.inner.take().expect("a guard ends once")
    }
}

impl<K: Kind> Drop for Guard<K> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.driver.release(inner.unlock());
        }
    }
}
