use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use quorumlock::kind::{self, Kind};
use quorumlock::{Error, Guard, LockRequest, Locker};
use quorumlock_command::say;
use tokio::time::sleep;

/// What is held while the command runs: how it is asked for, and what is told of it.
pub(super) struct Hold<K: Kind> {
    request: LockRequest<K>,
    /// For people: `the lock a, b`.
    label: String,
    slot: fn(&Guard<K>) -> Option<u16>,
}

impl Hold<kind::Lock> {
    pub(super) fn lock(locker: &Locker, names: &[&str]) -> Self {
        Self {
            request: locker.lock_all(names),
            label: format!("the lock {}", names.join(", ")),
            slot: |_| None,
        }
    }
}

impl Hold<kind::Permit> {
    pub(super) fn permit(locker: &Locker, name: &str, permits: u32) -> Self {
        Self {
            request: locker.permit(name, permits),
            label: format!("a permit of {name}"),
            slot: |permit| Some(permit.slot()),
        }
    }
}

impl Hold<kind::Read> {
    pub(super) fn read(locker: &Locker, name: &str) -> Self {
        Self {
            request: locker.read(name),
            label: format!("the read-write lock {name}, to read"),
            slot: |_| None,
        }
    }
}

impl Hold<kind::Write> {
    pub(super) fn write(locker: &Locker, name: &str) -> Self {
        Self {
            request: locker.write(name),
            label: format!("the read-write lock {name}, to write"),
            slot: |_| None,
        }
    }
}

impl<K: Kind> Hold<K> {
    /// Sets the options of the request.
    pub(super) fn with(self, set: impl FnOnce(LockRequest<K>) -> LockRequest<K>) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Waits for the grant. Returns the slot, too, if the hold has one.
    pub(super) async fn acquire(&self) -> Result<(Guard<K>, Option<u16>), Error> {
        /// A shorter wait is not reported.
        const SILENT_FOR: Duration = Duration::from_secs(1);

        let mut granted = pin!(self.request.clone().into_future());
        let guard = tokio::select! {
            guard = &mut granted => guard?,
            () = sleep(SILENT_FOR) => {
                say(format_args!("waiting for {}", self.label));
                granted.await?
            }
        };
        let slot = (self.slot)(&guard);
        Ok((guard, slot))
    }
}
