//! What is measured: each takes a lock, does its work, and gives it back, as its users would.

mod baseline;
mod ours;
mod peers;
mod raw;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use quorumlock_core::Instant;

use self::baseline::{Bulk, Pings, TokenRing};
use self::ours::Ours;
use self::peers::{RedisLock, Rslock};
use self::raw::{Answers, Raw};
use crate::testbed::now;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The `redis` crate by hand: `SET NX PX` and compare-and-delete, every answer awaited.
    Raw,
    /// Likewise, but a majority of the answers is awaited.
    RawMajority,
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
    /// No lock at all: two empty round trips.
    Pings,
    /// No lock at all: a token that the server hands on, to one task for each connection.
    TokenRing,
    /// What the servers have time for: the raw client's commands for many names at once.
    Bulk,
}

/// One of them, connected. Cheap to clone: one for each task.
#[derive(Clone)]
pub enum Subject {
    /// By hand.
    Raw(Raw),
    /// quorumlock.
    Ours(Ours),
    /// A crate.
    Rslock(Rslock),
    /// A crate.
    RedisLock(RedisLock),
    /// No lock.
    Pings(Pings),
    /// No lock.
    TokenRing(TokenRing),
    /// No lock.
    Bulk(Bulk),
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
    /// If they do not answer.
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

/// What takes a lock.
pub trait Hold: Clone + Send + Sync + 'static {
    /// Waits for a lock, works, gives it back.
    ///
    /// # Errors
    /// What the subject says.
    fn hold(&self, name: &str, work: Work) -> impl Future<Output = Result<Held>> + Send;

    /// For another task: whatever a crate wants each task to have of its own is.
    #[must_use]
    fn for_task(&self) -> Self {
        self.clone()
    }
}

/// Does something with a subject as what it is: no subject pays for the size of another's futures.
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
    /// Waits for a lock, works, gives it back: once.
    ///
    /// # Errors
    /// What the subject says.
    pub async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        with_subject!(self, it => it.hold(name, work).await)
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
