//! What is measured: each takes a lock, does its work, and gives it back, as its users would.

mod floor;
mod ours;
mod peers;
mod raw;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use quorumlock::Locker;
use quorumlock_core::Instant;

use self::floor::{Baton, Pings};
use self::peers::{RedisLock, Rlock, Rslock};
use self::raw::Raw;
use crate::bed::now;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The `redis` crate by hand: a pair of scripts on one server, `SET NX PX` and
    /// compare-and-delete, joined, on several.
    Raw,
    /// The `redis` crate on one server with the very scripts of quorumlock's default.
    RawTokens,
    /// What a user gets.
    Default,
    /// As plain libraries do it: Redlock's layout, no tokens, no admission.
    Like,
    /// The default, but without tokens.
    NoTokens,
    /// The default, but any node may vote.
    NoAdmission,
    /// The default, but no lease is ever renewed.
    NoRenewal,
    /// `rslock`.
    Rslock,
    /// `redis-lock`.
    RedisLock,
    /// `rlock`, on one server only.
    Rlock,
    /// No lock at all: two empty round trips.
    Pings,
    /// No lock at all: a token that the server hands on, one server and one task only.
    Baton,
}

/// One of them, connected. Cheap to clone: one for each task.
#[derive(Clone)]
pub enum Subject {
    /// By hand.
    Raw(Raw),
    /// quorumlock.
    Ours(Locker, Option<Duration>),
    /// A crate.
    Rslock(Rslock),
    /// A crate.
    RedisLock(RedisLock),
    /// A crate.
    Rlock(Rlock),
    /// No lock.
    Pings(Pings),
    /// No lock.
    Baton(Baton),
}

/// What is done under a lock: nothing, or to wait for so long.
#[derive(Debug, Clone, Copy)]
pub struct Work(pub Option<Duration>);

/// From when to when a lock was held.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// When its holder learned of it.
    pub granted: Instant,
    /// When its holder had done its work.
    pub released: Instant,
}

/// What all of them ask for.
const LEASE: Duration = Duration::from_secs(30);
/// After a refusal those who do not wait for messages ask again after this at most.
const RETRY: Duration = Duration::from_millis(2);

impl Kind {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => crate::book::RAW,
            Self::RawTokens => "raw, our scripts",
            Self::Default => "default",
            Self::Like => "like for like",
            Self::NoTokens => "no tokens",
            Self::NoAdmission => "no admission",
            Self::NoRenewal => "no renewal",
            Self::Rslock => "rslock",
            Self::RedisLock => "redis-lock",
            Self::Rlock => "rlock",
            Self::Pings => "two PINGs",
            Self::Baton => "BLPOP and LPUSH",
        }
    }

    /// Whether its client sends `SET`; on the others it is a script that does.
    #[must_use]
    pub fn sends_set(self, nodes: usize) -> bool {
        match self {
            Self::Raw => nodes > 1,
            // Ours sends it for the first question only; its scripts send none where it is counted.
            Self::Like | Self::Rslock | Self::RedisLock | Self::Rlock => true,
            _ => false,
        }
    }

    /// Connects to the servers.
    ///
    /// # Errors
    /// If they do not answer.
    pub async fn connect(self, urls: &[String]) -> Result<Subject> {
        Ok(match self {
            Self::Raw => Subject::Raw(Raw::connect(urls, false).await?),
            Self::RawTokens => Subject::Raw(Raw::connect(urls, true).await?),
            Self::Default | Self::Like | Self::NoTokens | Self::NoAdmission | Self::NoRenewal => {
                let limit = (self == Self::NoRenewal).then_some(LEASE);
                Subject::Ours(ours::locker(self, urls)?, limit)
            }
            Self::Rslock => Subject::Rslock(Rslock::new(urls)),
            Self::RedisLock => Subject::RedisLock(RedisLock::connect(urls).await?),
            Self::Rlock => Subject::Rlock(Rlock::connect(urls).await?),
            Self::Pings => Subject::Pings(Pings::connect(urls).await?),
            Self::Baton => Subject::Baton(Baton::connect(urls).await?),
        })
    }
}

impl Subject {
    /// For another task: whatever a crate wants each task to have of its own is.
    #[must_use]
    pub fn for_task(&self) -> Self {
        match self {
            Self::RedisLock(lock) => Self::RedisLock(lock.for_task()),
            other => other.clone(),
        }
    }

    /// Waits for a lock, works, gives it back.
    ///
    /// # Errors
    /// What the subject says.
    pub async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        match self {
            Self::Raw(raw) => raw.hold(name, work).await,
            Self::Ours(locker, limit) => ours::hold(locker, *limit, name, work).await,
            Self::Rslock(rslock) => rslock.hold(name, work).await,
            Self::RedisLock(lock) => lock.hold(name, work).await,
            Self::Rlock(rlock) => rlock.hold(name, work).await,
            Self::Pings(pings) => pings.hold(work).await,
            Self::Baton(baton) => baton.hold(name, work).await,
        }
    }
}

impl Work {
    /// Does it.
    pub async fn run(self) -> Held {
        let granted = now();
        match self.0 {
            None => Held { granted, released: granted },
            Some(time) => {
                tokio::time::sleep(time).await;
                Held { granted, released: now() }
            }
        }
    }
}
