//! The subjects of the benches. Each takes a lock, does its work and releases the lock, as its
//! users would.

mod baseline;
mod etcd;
mod hold;
mod kind;
mod ours;
mod peers;
mod raw;
mod refusing;
mod scripted;
mod what;

use anyhow::{Result, bail};
use quorumlock::PermitGuard;

pub(crate) use self::hold::LEASE;
pub use self::hold::{Held, Hold, Work};
pub use self::kind::Kind;
pub use self::refusing::Refusing;
pub use self::what::What;

use self::baseline::{Bulk, Pings, TokenRing};
use self::etcd::Etcd;
use self::ours::Ours;
use self::peers::{RedisLock, Rslock};
use self::raw::{Answers, Raw};
use self::scripted::Scripted;

/// A connected subject. It is cheap to clone: each task has its own clone.
#[derive(Clone)]
pub enum Subject {
    /// The `redis` crate by hand.
    Raw(Raw),
    /// The same for kinds that need scripts.
    Scripted(Scripted),
    /// quorumlock.
    Ours(Ours),
    /// The crate `rslock`.
    Rslock(Rslock),
    /// The crate `redis-lock`.
    RedisLock(RedisLock),
    /// quorumlock's locker on etcd.
    Etcd(Etcd),
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
            Self::Default
            | Self::Like
            | Self::NoTokens
            | Self::NoAdmission
            | Self::Proven
            | Self::NoRenewal
            | Self::WithEvents
            | Self::SpansRefused
            | Self::ScriptsOnly => Subject::Ours(Ours::connect(self, urls).await?),
            Self::Rslock => Subject::Rslock(Rslock::new(urls)),
            Self::RedisLock => Subject::RedisLock(RedisLock::connect(urls).await?),
            Self::Etcd => Subject::Etcd(Etcd::connect(urls)?),
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
            $crate::subject::Subject::Scripted($it) => $do,
            $crate::subject::Subject::Ours($it) => $do,
            $crate::subject::Subject::Rslock($it) => $do,
            $crate::subject::Subject::RedisLock($it) => $do,
            $crate::subject::Subject::Etcd($it) => $do,
            $crate::subject::Subject::Pings($it) => $do,
            $crate::subject::Subject::TokenRing($it) => $do,
            $crate::subject::Subject::Bulk($it) => $do,
        }
    };
}

/// What another client holds until this is dropped.
#[derive(Default)]
pub struct Others {
    _permits: Vec<PermitGuard>,
}

impl Subject {
    /// The same client, which now takes another kind of lock.
    ///
    /// # Errors
    /// If it has no such kind, or a server does not answer.
    pub async fn taking(self, what: What) -> Result<Self> {
        Ok(match (self, what) {
            (subject, What::Lock) => subject,
            (Self::Raw(raw), what) => Self::Scripted(Scripted::load(raw.first()?, what).await?),
            (Self::Ours(ours), what) => Self::Ours(ours.taking(what)?),
            _ => bail!("it takes locks only"),
        })
    }

    /// Takes the permits of `name` that another client holds: this one, until the result is dropped.
    ///
    /// # Errors
    /// The subject's error.
    pub async fn occupy(&self, name: &str) -> Result<Others> {
        let mut permits = Vec::new();
        match self {
            Self::Ours(ours) => permits = ours.occupy(name).await?,
            Self::Scripted(scripted) => scripted.occupy(name).await?,
            _ => {}
        }
        Ok(Others { _permits: permits })
    }

    /// Waits for the lock, does the work and releases the lock.
    ///
    /// # Errors
    /// The subject's error.
    pub async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        with_subject!(self, it => it.hold(name, work).await)
    }
}
