//! The subjects of the benches. Each takes a lock, does its work and releases the lock, as its
//! users would.

mod baseline;
mod hold;
mod kind;
mod ours;
mod peers;
mod raw;

use anyhow::Result;

pub(crate) use self::hold::LEASE;
pub use self::hold::{Held, Hold, Work};
pub use self::kind::Kind;

use self::baseline::{Bulk, Pings, TokenRing};
use self::ours::Ours;
use self::peers::{RedisLock, Rslock};
use self::raw::{Answers, Raw};

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

impl Kind {
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
