//! The guards of the library, of any kind.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use quorumlock::{ConfigError, Error, Guard, HoldView, PermitGuard, ReadGuard, WriteGuard};

/// The guard of each kind.
pub(crate) enum AnyGuard {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(PermitGuard),
}

macro_rules! of_any {
    ($any:expr, $guard:ident => $then:expr) => {
        match $any {
            AnyGuard::Lock($guard) => $then,
            AnyGuard::Read($guard) => $then,
            AnyGuard::Write($guard) => $then,
            AnyGuard::Permit($guard) => $then,
        }
    };
}

impl AnyGuard {
    pub(crate) async fn unlock(self) -> Result<(), Error> {
        of_any!(self, guard => guard.unlock().await)
    }

    fn view(&self) -> HoldView {
        of_any!(self, guard => guard.view())
    }

    pub(crate) fn hold_count(&self) -> u32 {
        of_any!(self, guard => guard.hold_count())
    }

    pub(crate) fn renew(&self) -> BoxFuture<'static, Result<(), Error>> {
        of_any!(self, guard => Box::pin(guard.renew()))
    }
}

/// What an object of Python, the exit of the interpreter and a result on its way share.
pub(crate) struct HoldCell {
    /// `None` once it was given back.
    guard: Mutex<Option<AnyGuard>>,
    pub(crate) view: HoldView,
}

impl HoldCell {
    pub(crate) fn new(guard: AnyGuard) -> Arc<Self> {
        Arc::new(Self { view: guard.view(), guard: Mutex::new(Some(guard)) })
    }

    pub(crate) fn guard(&self) -> MutexGuard<'_, Option<AnyGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<AnyGuard> {
        self.guard().take()
    }

    /// What a call says that needs the lock after it was given back.
    pub(crate) fn ended(&self) -> Error {
        match self.view.check() {
            Err(lost) => lost.into(),
            Ok(()) => {
                ConfigError::System { what: "the hold", why: "it was given back".to_owned() }.into()
            }
        }
    }
}
