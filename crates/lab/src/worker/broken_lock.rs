//! The library's lock, that of another library, or a deliberately broken one: the negative control
//! for the judges.

use std::time::Duration;

use quorumlock::kind::Kind;
use quorumlock::{
    Admission, Builder, Error, Guard, HoldView, Locker, PermitGuard, ReadGuard, Replicas, Servers,
    WriteGuard,
};
use quorumlock_protocol::{Claim, Instant};
use quorumlock_watchdog::Clock;

use super::broken_guard::Broken;
use super::config::Config;
pub(crate) use super::foreign::Loss;
use super::foreign::{Foreign, ForeignHold};
use super::not_granted::NotGranted;
use super::protocol::{Greeting, LockKind, PROTOCOL, Topology};
use crate::etcd;
use crate::history::{Phase, TOGETHER};
use crate::mode::{Engine, Mode};
use crate::scenario::{Locking, ReadWrite, Ring, Work};

/// A locker of the library and what it takes, one of another library, or a broken one.
pub(super) enum Breached {
    Ours(Locker, Takes),
    /// Another library's, in a worker process of its own.
    Foreign(Foreign),
    /// The library's lock, or set of locks, on a cluster of etcd.
    Etcd(quorumlock_core::Locker),
    Broken(Broken),
}

/// What a client takes under its name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    Lock,
    /// Two names.
    Ring(Ring),
    /// One of so many permits.
    Permit(u32),
    /// A read-write lock.
    ReadWrite(ReadWrite),
}

impl Takes {
    pub(crate) fn of(locking: &Locking, work: &Work) -> Self {
        match (work.read_write, locking.permits, work.ring) {
            (Some(how), ..) => Self::ReadWrite(how),
            (None, Some(permits), _) => Self::Permit(permits),
            (None, None, Some(ring)) => Self::Ring(ring),
            (None, None, None) => Self::Lock,
        }
    }

    /// Waits for it. An error ends the wait at once.
    pub(super) async fn lock(self, locker: &Locker, name: &str) -> Result<Held, NotGranted> {
        Ok(match self {
            Self::Lock => Held::Ours(locker.lock(name).fail_fast().await?),
            Self::Ring(Ring::AllOrNothing) => {
                Held::Ours(locker.lock(name.split(TOGETHER).collect::<Vec<_>>()).fail_fast().await?)
            }
            Self::Ring(Ring::OneByOne) => {
                let (first, second) = name.split_once(TOGETHER).unwrap_or((name, name));
                let first = locker.lock(first).fail_fast().await?;
                // Until all others have their first name, too.
                tokio::time::sleep(ONE_BY_ONE).await;
                Held::Both(first, locker.lock(second).fail_fast().await?)
            }
            Self::Permit(of) => {
                Held::Permit(locker.semaphore(name, of).acquire().fail_fast().await?)
            }
            Self::ReadWrite(ReadWrite::Read) => {
                Held::Read(locker.rw_lock(name).read().fail_fast().await?)
            }
            Self::ReadWrite(ReadWrite::Write) => {
                Held::Write(locker.rw_lock(name).write().fail_fast().await?)
            }
        })
    }

    /// Asks once.
    pub(super) async fn try_lock(
        self,
        locker: &Locker,
        name: &str,
    ) -> Result<Option<Held>, NotGranted> {
        Ok(match self {
            Self::Lock => locker.try_lock(name).await?.map(Held::Ours),
            Self::Ring(_) => {
                locker.try_lock(name.split(TOGETHER).collect::<Vec<_>>()).await?.map(Held::Ours)
            }
            Self::Permit(of) => locker.semaphore(name, of).try_acquire().await?.map(Held::Permit),
            Self::ReadWrite(ReadWrite::Read) => {
                locker.rw_lock(name).try_read().await?.map(Held::Read)
            }
            Self::ReadWrite(ReadWrite::Write) => {
                locker.rw_lock(name).try_write().await?.map(Held::Write)
            }
        })
    }
}

/// A hold of the library's lock, of two of them, of its permit or read-write lock, of another
/// library's lock, or of a broken one.
pub(crate) enum Held {
    Ours(Guard),
    Both(Guard, Guard),
    Permit(PermitGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Foreign(ForeignHold),
    Broken { lock: Broken, value: String, until: Instant },
}

/// The name that sentinels give the master.
pub(crate) const MASTER: &str = "lab";

/// The time between the names that a task takes one by one.
const ONE_BY_ONE: Duration = Duration::from_millis(500);

/// All clocks are those of one machine.
pub(crate) const CLOCK_BOUND: Duration = Duration::from_millis(100);

/// Makes the library's locker for a mode.
pub(crate) fn locker(
    mode: Mode,
    urls: Vec<String>,
    locking: &Locking,
    client: &str,
) -> Result<Locker, Error> {
    build(builder(mode, locking, client), mode, urls)
}

/// Makes the locker of a builder that has the settings of the mode.
pub(crate) fn build(builder: Builder, mode: Mode, urls: Vec<String>) -> Result<Locker, Error> {
    match (mode.engine(), mode) {
        (Engine::Sentinel, _) => builder.on(Servers::sentinel(urls, MASTER)),
        (Engine::Cluster, _) => builder.on(Servers::cluster(urls)),
        (Engine::Addresses, Mode::S | Mode::S1) => {
            builder.on(Servers::single(urls.first().map_or("", String::as_str)))
        }
        (Engine::Addresses, _) if mode.replicas() > 0 => builder.on(Servers::replicated(urls)),
        (Engine::Addresses, _) => builder.on(Servers::quorum(urls)),
    }
}

/// The settings of a mode.
pub(crate) fn builder(mode: Mode, locking: &Locking, client: &str) -> Builder {
    let builder = Builder::without_servers()
        .lease(Duration::from_millis(locking.lease_ms))
        .max_lease(Duration::from_millis(locking.max_lease_ms))
        .takeover_delay(Duration::from_millis(locking.takeover_delay_ms))
        .client_name(&format!("lab-{client}"))
        .replicas(Replicas::AtLeast(locking.acks))
        .strict_order(locking.strict_order);
    match mode {
        mode if mode.strict() => builder.admission(Admission::Strict).clock_bound(CLOCK_BOUND),
        Mode::Q3 | Mode::Q5 | Mode::Q7 => builder.admission(Admission::Redlock),
        _ => builder,
    }
}

impl Takes {
    /// As the protocol of workers says it, with the number of permits.
    fn kind(self) -> (LockKind, Option<u32>) {
        match self {
            Self::Lock | Self::Ring(_) => (LockKind::Lock, None),
            Self::Permit(of) => (LockKind::Permit, Some(of)),
            Self::ReadWrite(ReadWrite::Read) => (LockKind::Read, None),
            Self::ReadWrite(ReadWrite::Write) => (LockKind::Write, None),
        }
    }
}

/// Starts the worker of another library.
async fn foreign(config: &Config, command: &str) -> std::io::Result<Foreign> {
    let sentinels = config.mode.engine() == Engine::Sentinel;
    let topology = match config.urls.len() {
        _ if sentinels => Topology::Sentinel,
        1 => Topology::One,
        _ => Topology::Quorum,
    };
    let greeting = Greeting {
        protocol: PROTOCOL,
        client: config.client.clone(),
        topology,
        servers: config.urls.clone(),
        master: sentinels.then(|| MASTER.to_owned()),
        lease_ms: config.locking.lease_ms,
    };
    let (kind, permits) = Takes::of(&config.locking, &config.work).kind();
    Foreign::start(command, greeting, kind, permits).await
}

/// The names that are taken together.
fn names(name: &str) -> Vec<String> {
    name.split(TOGETHER).map(str::to_owned).collect()
}

/// How long a client waits before it asks a library again that does not wait for as long as ordered.
const ASKS_AGAIN_AFTER: Duration = Duration::from_millis(2);

impl Breached {
    pub(super) async fn new(config: &Config) -> Result<Self, Box<dyn std::error::Error>> {
        if let Some(command) = &config.library {
            return Ok(Self::Foreign(foreign(config, command).await?));
        }
        let lease = Duration::from_millis(config.locking.lease_ms);
        if let Some(kind) = config.work.broken_lock {
            return Ok(Self::Broken(Broken::new(config, kind, lease)?));
        }
        if config.mode == Mode::E {
            return Ok(Self::Etcd(etcd::locker_of(&config.urls, &config.locking)?));
        }
        let locker = locker(config.mode, config.urls.clone(), &config.locking, &config.client)?;
        Ok(Self::Ours(locker, Takes::of(&config.locking, &config.work)))
    }

    /// Takes another lock three times. The first request makes the connections, and a node that has
    /// just been verified is asked only in the next round.
    pub(super) async fn connect(&self, name: &str) -> Result<(), String> {
        let before = format!("{name}-before");
        if let Self::Foreign(foreign) = self {
            let held = foreign.acquire(vec![before], None).await?;
            return held.ok_or("it is held")?.release().await;
        }
        let request = || match self {
            Self::Ours(locker, _) => Some(locker.lock(&before)),
            Self::Etcd(locker) => Some(locker.lock(Claim::lock([&before]))),
            Self::Foreign(_) | Self::Broken(_) => None,
        };
        for request in std::iter::repeat_with(request).take(3).flatten() {
            let held = request.await.map_err(|error| error.to_string())?;
            held.unlock().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// A broken lock knows its name.
    pub(super) async fn lock(&self, name: &str) -> Result<Held, NotGranted> {
        match self {
            Self::Ours(locker, takes) => takes.lock(locker, name).await,
            Self::Etcd(locker) => {
                Ok(Held::Ours(locker.lock(Claim::lock(name.split(TOGETHER))).fail_fast().await?))
            }
            Self::Foreign(foreign) => loop {
                if let Some(held) = foreign.acquire(names(name), None).await? {
                    return Ok(Held::Foreign(held));
                }
                tokio::time::sleep(ASKS_AGAIN_AFTER).await;
            },
            Self::Broken(broken) => loop {
                if let Some((value, until)) = broken.try_lock().await? {
                    return Ok(Held::Broken { lock: broken.clone(), value, until });
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            },
        }
    }

    pub(super) async fn try_lock(&self, name: &str) -> Result<Option<Held>, NotGranted> {
        match self {
            Self::Ours(locker, takes) => takes.try_lock(locker, name).await,
            Self::Etcd(locker) => {
                Ok(locker.try_lock(Claim::lock(name.split(TOGETHER))).await?.map(Held::Ours))
            }
            Self::Foreign(foreign) => {
                let taken = foreign.acquire(names(name), Some(Duration::ZERO)).await?;
                Ok(taken.map(Held::Foreign))
            }
            Self::Broken(broken) => {
                let taken = broken.try_lock().await?;
                let held = |(value, until)| Held::Broken { lock: broken.clone(), value, until };
                Ok(taken.map(held))
            }
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Ours(locker, _) => locker.close().await,
            Self::Etcd(locker) => locker.close().await,
            Self::Foreign(foreign) => foreign.close().await,
            Self::Broken(_) => {}
        }
    }
}

impl Held {
    /// The view of the library's guard. Other locks have none.
    fn view(&self) -> Option<HoldView> {
        match self {
            Self::Ours(guard) | Self::Both(_, guard) => Some(guard.view()),
            Self::Permit(permit) => Some(permit.view()),
            Self::Read(reader) => Some(reader.view()),
            Self::Write(writer) => Some(writer.view()),
            Self::Foreign(_) | Self::Broken { .. } => None,
        }
    }

    /// The slot that a permit holds.
    pub(crate) fn slot(&self) -> Option<u16> {
        match self {
            Self::Permit(permit) => Some(permit.slot()),
            _ => None,
        }
    }

    pub(crate) fn token(&self) -> u64 {
        if let Self::Foreign(hold) = self {
            return hold.token();
        }
        self.view().map_or(0, |view| view.token().get())
    }

    /// When a worker of another library asked, and when it heard of the grant, on the judges' clock.
    pub(crate) fn readings(&self) -> Option<(u64, u64)> {
        match self {
            Self::Foreign(hold) => Some(hold.readings()),
            _ => None,
        }
    }

    /// The nonce of the hold on the nodes. Other locks have none.
    pub(crate) fn nonce(&self) -> Option<String> {
        Some(self.view()?.nonce().to_string())
    }

    pub(crate) fn valid_for(&self) -> Duration {
        match self {
            Self::Ours(guard) => guard.valid_for(),
            Self::Both(first, second) => first.valid_for().min(second.valid_for()),
            Self::Permit(permit) => permit.valid_for(),
            Self::Read(reader) => reader.valid_for(),
            Self::Write(writer) => writer.valid_for(),
            Self::Foreign(hold) => hold.valid_for(),
            Self::Broken { until, .. } => until.since(Clock::system().now()),
        }
    }

    /// Whether the holder may believe that it holds the lock. Another library is asked.
    pub(crate) async fn is_valid(&self) -> bool {
        match self {
            Self::Foreign(hold) => hold.is_valid().await,
            _ => self.is_valid_now(),
        }
    }

    /// As [`is_valid`](Self::is_valid), of a lock that needs no request for that.
    pub(super) fn is_valid_now(&self) -> bool {
        self.view().map_or_else(|| !self.valid_for().is_zero(), |view| view.is_valid())
    }

    /// Waits for the loss of the lock. A broken lock never reports one.
    pub(crate) async fn lost(&self) -> Loss {
        if let Self::Foreign(hold) = self {
            return hold.lost().await;
        }
        match self.view() {
            Some(view) => Loss { why: view.lost().await.why.to_string(), at_ns: None },
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn unlock(self) -> Result<(), (Phase, String)> {
        match self {
            Self::Ours(guard) => unlock(guard).await,
            Self::Both(first, second) => {
                let unlocked = unlock(second).await;
                unlock(first).await.and(unlocked)
            }
            Self::Permit(permit) => unlock(permit).await,
            Self::Read(reader) => unlock(reader).await,
            Self::Write(writer) => unlock(writer).await,
            Self::Foreign(hold) => hold.release().await.map_err(|why| (Phase::Unknown, why)),
            Self::Broken { lock, value, .. } => {
                lock.release(&value).await.map_err(|error| (Phase::Unknown, error))
            }
        }
    }
}

async fn unlock<K: Kind>(guard: Guard<K>) -> Result<(), (Phase, String)> {
    guard.unlock().await.map_err(|error| {
        let unknown = matches!(error, Error::Refused(_) | Error::Unreachable(_));
        (if unknown { Phase::Unknown } else { Phase::Fail }, error.to_string())
    })
}
