use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use super::guard::Guard;
use super::locker::Locker;
use super::owners::Place;
use super::quest::{Quest, Wanted};
use crate::settings::{check_hold, check_wait};
use crate::{ConfigError, Error, Name, Owner};

/// A lock that is about to be waited for: give it options, then await it.
#[derive(Debug)]
#[must_use = "nothing is locked until this is awaited"]
pub struct Lock {
    order: Order,
    wait: Option<Duration>,
    fail_fast: bool,
    /// What is given back first.
    after: Option<Box<Guard>>,
}

/// A lock that is about to be tried: give it options, then await it.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until this is awaited"]
pub struct TryLock {
    order: Order,
}

#[derive(Clone, Debug)]
struct Order {
    locker: Locker,
    name: Result<Name, ConfigError>,
    /// Default: the locker's.
    lease: Option<Duration>,
    hold_at_most: Option<Duration>,
    owner: Option<Owner>,
}

macro_rules! options {
    ($builder:ident) => {
        impl $builder {
            /// What Redis keeps without news from us: a dead holder's lock is free after so long.
            /// Default: the locker's setting (30 s); at least 10 ms, at most `max_lease`.
            ///
            /// A lock that another process hands over on a single node begins with a tenth of it (a second at
            /// least, never more than all of it), and the watchdog makes a whole lease of that a moment later
            /// (docs/SAFETY.md, Tokens). Who needs a whole one from the start: `Builder::handover(false)`.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.order.lease = Some(lease);
                self
            }

            /// Ends the hold after so long, whatever happens to its worker (SAFETY.md H21). A hold
            /// that is shorter than the lease is never renewed: Redisson's explicit `leaseTime`.
            /// Default: no limit. 10 ms to 10 years.
            ///
            /// The only bound on a hold whose guard is never dropped: after `mem::forget(guard)`,
            /// or in a cycle of `Arc`s, the watchdog renews for as long as the process lives,
            /// though every locker is dropped.
            pub fn hold_at_most(mut self, limit: Duration) -> Self {
                self.order.hold_at_most = Some(limit);
                self
            }

            /// Re-enters if `owner` holds the lock already; lease and limit stay those of the
            /// first. Other ones asked for here are an error
            /// ([`ConfigError::ReEntryDiffers`](crate::ConfigError::ReEntryDiffers)); the same or
            /// none are fine. Default: nobody, so that two locks exclude each other.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.order.owner = Some(owner.clone());
                self
            }
        }
    };
}

options!(Lock);
options!(TryLock);

impl Lock {
    pub(super) fn new(locker: &Locker, name: &str) -> Self {
        let order = Order::new(locker.clone(), Name::new(name));
        Self { order, wait: None, fail_fast: false, after: None }
    }

    pub(super) fn after(guard: Guard) -> Self {
        let lease = guard.lease();
        let locker = Locker { inner: guard.inner().clone() };
        let order = Order {
            owner: lease.place.get().map(|place| place.owner()),
            ..Order::new(locker, Ok(lease.name.clone()))
        };
        Self { order, wait: None, fail_fast: false, after: Some(Box::new(guard)) }
    }

    /// Waits so long at most: for the lock, and for nodes that do not answer. At the end [`Error::Busy`] if
    /// somebody held it at the last look, else what the nodes did. Default: for ever; and 30 s for nodes that do
    /// not answer.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Ends with the first attempt that too few nodes answer, instead of waiting until they do.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }
}

impl TryLock {
    pub(super) fn new(locker: &Locker, name: &str) -> Self {
        Self { order: Order::new(locker.clone(), Name::new(name)) }
    }
}

/// # Errors
/// As [`Locker::lock`].
///
/// # Cancel safety
/// Cancel safe: dropping the future gives up the place in the queue, and what might have been
/// granted is released.
impl IntoFuture for Lock {
    type Output = Result<Guard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let patience = Patience { wait: self.wait, once: false, fail_fast: self.fail_fast };
        match self.after {
            None => Box::pin(self.order.acquire(patience)),
            Some(guard) => Box::pin(self.order.acquire_again(patience, guard)),
        }
    }
}

/// # Errors
/// As [`Lock`], but a lock that somebody else holds is `None`.
///
/// # Cancel safety
/// As [`Lock`].
impl IntoFuture for TryLock {
    type Output = Result<Option<Guard>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let patience = Patience { wait: None, once: true, fail_fast: true };
            match self.order.acquire(patience).await {
                Ok(guard) => Ok(Some(guard)),
                Err(Error::Busy(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

impl Order {
    fn new(locker: Locker, name: Result<Name, ConfigError>) -> Self {
        Self { locker, name, lease: None, hold_at_most: None, owner: None }
    }

    async fn acquire(self, patience: Patience) -> Result<Guard, Error> {
        let calls = self.locker.inner.calls.subscribe();
        until_closed(calls, async {
            match self.quest(patience)? {
                (quest, None) => quest.seek(None, None).await,
                // Seldom, so on the heap: a future should be small.
                (quest, Some(place)) => Box::pin(quest.enter(place)).await,
            }
        })
        .await
    }

    async fn acquire_again(self, patience: Patience, guard: Box<Guard>) -> Result<Guard, Error> {
        let calls = self.locker.inner.calls.subscribe();
        until_closed(calls, async {
            match self.quest(patience)? {
                (quest, None) => {
                    let bumped = quest.bump(*guard).await?;
                    quest.seek(None, bumped).await
                }
                (quest, Some(place)) => {
                    quest.part_with(*guard).await?;
                    quest.enter(place).await
                }
            }
        })
        .await
    }

    fn quest(self, patience: Patience) -> Result<(Quest, Option<Place>), Error> {
        let Patience { wait, once, fail_fast } = patience;
        wait.map_or(Ok(()), check_wait)?;
        let inner = self.locker.inner;
        inner.open()?;
        let name = self.name?;
        let lease = self.lease.unwrap_or(inner.settings.lease);
        inner.settings.check_lease(lease)?;
        self.hold_at_most.map_or(Ok(()), check_hold)?;
        let deadline = wait.map(|wait| inner.clock.now() + wait);
        let Self { lease: explicit_lease, hold_at_most, .. } = self;
        let wanted = Wanted { name, lease, explicit_lease, hold_at_most };
        let place = self.owner.map(|owner| inner.owners.place(&owner, &wanted.name));
        Ok((Quest { inner, wanted, deadline, once, fail_fast }, place))
    }
}

/// For how long, and for what, a call waits.
#[derive(Clone, Copy, Debug)]
struct Patience {
    wait: Option<Duration>,
    once: bool,
    fail_fast: bool,
}

/// What `call` comes to, unless the locker is closed first. What is left of it is dropped before `calls`, for which
/// [`Locker::close`] waits.
async fn until_closed<T>(
    mut calls: watch::Receiver<bool>,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        _ = calls.wait_for(|closed| *closed) => Err(Error::Closed),
        done = call => done,
    }
}
