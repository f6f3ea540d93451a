//! The subjects of the benches. Each takes a lock, does its work and releases the lock, as its
//! users would.

mod baseline;
mod ours;
mod peers;
mod raw;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use quorumlock_protocol::Instant;

use self::baseline::{Bulk, Pings, TokenRing};
use self::ours::Ours;
use self::peers::{RedisLock, Rslock};
use self::raw::{Answers, Raw};
use crate::testbed::now;

/// The kind of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The `redis` crate by hand: `SET NX PX` and compare-and-delete, every answer awaited.
    Raw,
    /// The same, but only a majority of the answers is awaited.
    RawMajority,
    /// quorumlock with its default options.
    Default,
    /// quorumlock restricted to what plain libraries do: Redlock's layout, no tokens, no admission.
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
    /// No lock at all: two empty round trips.
    Pings,
    /// No lock at all: a token that the server passes on, with one connection per task.
    TokenRing,
    /// The limit of the servers: the raw client's commands for many names at once.
    Bulk,
}

/// A connected subject. It is cheap to clone: each task has its own clone.
#[derive(Clone)]
pub enum Subject {
    /// The `redis` crate by hand.
    Raw(Raw),
    /// quorumlock.
    Ours(Ours),
    /// The crate `rslock`.
    Rslock(Rslock),
    /// The crate `redis-lock`.
    RedisLock(RedisLock),
    /// Two `PING`s.
    Pings(Pings),
    /// The token ring.
    TokenRing(TokenRing),
    /// The raw client's commands in bulk.
    Bulk(Bulk),
}

/// The work under a lock: none, or a sleep of this length.
#[derive(Debug, Clone, Copy)]
pub struct Work(pub Option<Duration>);

/// The interval for which a lock was held.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// When the holder learned of the grant.
    pub granted: Instant,
    /// When the holder had done its work.
    pub released: Instant,
}

/// The lease that all subjects ask for.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// The longest pause after a refusal, for subjects that poll.
const RETRY: Duration = Duration::from_millis(2);

impl Kind {
    /// The name of the subject in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => crate::results::RAW,
            Self::RawMajority => "raw, majority",
            Self::Default => "default",
            Self::Like => "like for like",
            Self::NoTokens => "no tokens",
            Self::NoAdmission => "no admission",
            Self::NoRenewal => "no renewal",
            Self::Rslock => "rslock",
            Self::RedisLock => "redis-lock",
            Self::Pings => "two PINGs",
            Self::TokenRing => "token ring",
            Self::Bulk => "raw in bulk",
        }
    }

    /// Connects to the servers.
    ///
    /// # Errors
    /// If the servers do not answer.
    pub async fn connect(self, urls: &[String]) -> Result<Subject> {
        Ok(match self {
            Self::Raw => Subject::Raw(Raw::connect(urls, Answers::All).await?),
            Self::RawMajority => Subject::Raw(Raw::connect(urls, Answers::Majority).await?),
            Self::Default | Self::Like | Self::NoTokens | Self::NoAdmission | Self::NoRenewal => {
                Subject::Ours(Ours::connect(self, urls)?)
            }
            Self::Rslock => Subject::Rslock(Rslock::new(urls)),
            Self::RedisLock => Subject::RedisLock(RedisLock::connect(urls).await?),
            Self::Pings => Subject::Pings(Pings::connect(urls).await?),
            Self::TokenRing => Subject::TokenRing(TokenRing::connect(urls).await?),
            Self::Bulk => Subject::Bulk(Bulk::connect(urls).await?),
        })
    }
}

/// A subject that can hold a lock.
pub trait Hold: Clone + Send + Sync + 'static {
    /// Waits for the lock, does the work and releases the lock.
    ///
    /// # Errors
    /// The subject's error.
    fn hold(&self, name: &str, work: Work) -> impl Future<Output = Result<Held>> + Send;

    /// A handle for another task. It has its own instance of everything that the crate does not
    /// share between tasks.
    #[must_use]
    fn for_task(&self) -> Self {
        self.clone()
    }
}

/// Runs an expression with the concrete type of a subject, so that no subject pays for the size of
/// another's futures.
#[macro_export]
macro_rules! with_subject {
    ($subject:expr, $it:ident => $do:expr) => {
        match $subject {
            $crate::subject::Subject::Raw($it) => $do,
            $crate::subject::Subject::Ours($it) => $do,
            $crate::subject::Subject::Rslock($it) => $do,
            $crate::subject::Subject::RedisLock($it) => $do,
            $crate::subject::Subject::Pings($it) => $do,
            $crate::subject::Subject::TokenRing($it) => $do,
            $crate::subject::Subject::Bulk($it) => $do,
        }
    };
}

impl Subject {
    /// Waits for the lock, does the work and releases the lock.
    ///
    /// # Errors
    /// The subject's error.
    pub async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        with_subject!(self, it => it.hold(name, work).await)
    }
}

impl Work {
    /// Does the work, and returns when it began and ended.
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
