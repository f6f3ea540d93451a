use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

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
    lease: Duration,
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
            /// (docs/SAFETY.md, Tokens, form d). Who needs a whole one from the start: `Builder::handover(false)`.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.order.lease = lease;
                self
            }

            /// Ends the hold after so long, whatever happens to its worker (SAFETY.md H21). A hold
            /// that is shorter than the lease is never renewed: Redisson's explicit `leaseTime`.
            /// Default: no limit.
            pub fn hold_at_most(mut self, limit: Duration) -> Self {
                self.order.hold_at_most = Some(limit);
                self
            }

            /// Re-enters if `owner` holds the lock already; lease and limit stay those of the
            /// first. Default: nobody, so that two locks exclude each other.
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
        Self { order: Order::new(locker.clone(), Name::new(name)), wait: None, after: None }
    }

    pub(super) fn after(guard: Guard) -> Self {
        let lease = guard.lease();
        let locker = Locker { inner: guard.inner().clone() };
        let order = Order {
            owner: lease.place.get().map(|place| place.owner()),
            ..Order::new(locker, Ok(lease.name.clone()))
        };
        Self { order, wait: None, after: Some(Box::new(guard)) }
    }

    /// Waits so long at most, then gives [`Error::Busy`]. Default: for ever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }
}

impl TryLock {
    pub(super) fn new(locker: &Locker, name: &str) -> Self {
        Self { order: Order::new(locker.clone(), Name::new(name)) }
    }
}

/// # Errors
/// [`Error::Busy`] after [`Lock::wait`]; [`Error::Unreachable`] within the answer timeout when too
/// few nodes answer; [`Error::Config`] for bad input or a name held in another format;
/// [`Error::Lost`] if the owner's outer hold of the name was lost; [`Error::Closed`].
///
/// # Cancel safety
/// Cancel safe: dropping the future gives up the place in the queue, and what might have been
/// granted is released.
impl IntoFuture for Lock {
    type Output = Result<Guard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.after {
            None => Box::pin(self.order.acquire(self.wait, false)),
            Some(guard) => Box::pin(self.order.acquire_again(self.wait, guard)),
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
            match self.order.acquire(None, true).await {
                Ok(guard) => Ok(Some(guard)),
                Err(Error::Busy(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

impl Order {
    fn new(locker: Locker, name: Result<Name, ConfigError>) -> Self {
        let lease = locker.inner.settings.lease;
        Self { locker, name, lease, hold_at_most: None, owner: None }
    }

    async fn acquire(self, wait: Option<Duration>, once: bool) -> Result<Guard, Error> {
        match self.quest(wait, once)? {
            (quest, None) => quest.seek(None, None).await,
            // Seldom, so on the heap: a future should be small.
            (quest, Some(place)) => Box::pin(quest.enter(place)).await,
        }
    }

    async fn acquire_again(
        self,
        wait: Option<Duration>,
        guard: Box<Guard>,
    ) -> Result<Guard, Error> {
        match self.quest(wait, false)? {
            (quest, None) => {
                let bumped = quest.bump(*guard).await?;
                quest.seek(None, bumped).await
            }
            (quest, Some(place)) => {
                quest.part_with(*guard).await?;
                quest.enter(place).await
            }
        }
    }

    fn quest(self, wait: Option<Duration>, once: bool) -> Result<(Quest, Option<Place>), Error> {
        wait.map_or(Ok(()), check_wait)?;
        let inner = self.locker.inner;
        inner.open()?;
        let name = self.name?;
        inner.settings.check_lease(self.lease)?;
        self.hold_at_most.map_or(Ok(()), check_hold)?;
        let deadline = wait.map(|wait| inner.clock.now() + wait);
        let wanted = Wanted { name, lease: self.lease, hold_at_most: self.hold_at_most };
        let place = self.owner.map(|owner| inner.owners.place(&owner, &wanted.name));
        Ok((Quest { inner, wanted, deadline, once }, place))
    }
}
