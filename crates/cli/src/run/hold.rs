use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use quorumlock::kind::{self, Kind};
use quorumlock::{Error, Guard, Holder, LockRequest, Locker};
use quorumlock_command::{Failure, say};
use tokio::time::sleep;

use super::outer_holds::Asked;
use crate::read_write::ReadWriteStatus;
use crate::text::Who;

/// What is held while the command runs: how it is asked for, and what is told of it.
pub(super) struct Hold<K: Kind> {
    request: LockRequest<K>,
    locker: Locker,
    /// For people: `the lock a, b`.
    label: String,
    pub(super) asked: Asked,
    slot: fn(&Guard<K>) -> Option<u16>,
}

impl Hold<kind::Lock> {
    pub(super) fn lock(locker: &Locker, names: &[&str]) -> Self {
        Self {
            locker: locker.clone(),
            request: locker.lock(names),
            label: format!("the lock {}", names.join(", ")),
            asked: Asked::Lock(names.iter().map(ToString::to_string).collect()),
            slot: |_| None,
        }
    }
}

impl Hold<kind::Permit> {
    pub(super) fn permit(locker: &Locker, name: &str, permits: u32) -> Self {
        Self {
            locker: locker.clone(),
            request: locker.semaphore(name, permits).acquire(),
            label: format!("a permit of {name}"),
            asked: Asked::Permit(name.to_owned(), permits),
            slot: |permit| Some(permit.slot()),
        }
    }
}

impl Hold<kind::Read> {
    pub(super) fn read(locker: &Locker, name: &str) -> Self {
        Self {
            locker: locker.clone(),
            request: locker.rw_lock(name).read(),
            label: format!("the read-write lock {name}, to read"),
            asked: Asked::Read(name.to_owned()),
            slot: |_| None,
        }
    }
}

impl Hold<kind::Write> {
    pub(super) fn write(locker: &Locker, name: &str) -> Self {
        Self {
            locker: locker.clone(),
            request: locker.rw_lock(name).write(),
            label: format!("the read-write lock {name}, to write"),
            asked: Asked::Write(name.to_owned()),
            slot: |_| None,
        }
    }
}

impl<K: Kind> Hold<K> {
    /// Sets the options of the request.
    pub(super) fn with(self, set: impl FnOnce(LockRequest<K>) -> LockRequest<K>) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Waits for the grant, and says so unless it is to be `quiet`. Returns the slot, too, if the hold has
    /// one.
    pub(super) async fn acquire(&self, quiet: bool) -> Result<(Guard<K>, Option<u16>), Error> {
        /// A shorter wait is not reported.
        const SILENT_FOR: Duration = Duration::from_secs(1);

        let mut granted = pin!(self.request.clone().into_future());
        let reported = async {
            sleep(SILENT_FOR).await;
            match self.holder().await {
                Some(holder) => say(format_args!("waiting for {}: {holder}", self.label)),
                None => say(format_args!("waiting for {}", self.label)),
            }
        };
        let guard = tokio::select! {
            biased;
            guard = &mut granted => guard?,
            () = reported, if !quiet => granted.await?,
        };
        let slot = (self.slot)(&guard);
        Ok((guard, slot))
    }

    /// The failure that the error is. It says who keeps the hold from us.
    pub(super) async fn failure(&self, error: Error) -> Failure {
        let is_busy = error.is_busy();
        let mut failure = Failure::from(error);
        if is_busy && let Some(holder) = self.holder().await {
            failure.message += &format!(": {holder}");
        }
        failure
    }

    /// Who keeps the hold from us, for people, if a majority knows.
    async fn holder(&self) -> Option<String> {
        match &self.asked {
            Asked::Lock(names) => {
                for name in names {
                    if let Ok(Some(Holder { id, label, .. })) =
                        self.locker.mutex(name).holder().await
                    {
                        let who = Who { id: &id, label: label.as_deref() };
                        return Some(format!("{name} is held by {who}"));
                    }
                }
                None
            }
            Asked::Read(name) | Asked::Write(name) => {
                let holder = self.locker.rw_lock(name).holder().await.ok()??;
                Some(ReadWriteStatus::new(name.clone(), Some(holder)).to_string())
            }
            // All of them are held, each by another.
            Asked::Permit(..) => None,
        }
    }
}
