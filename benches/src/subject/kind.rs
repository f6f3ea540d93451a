use clap::ValueEnum;

use super::refusing::Refusing;
use super::what::What;

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
    /// The default, but one server must prove its memory.
    Proven,
    /// The default, but no lease is ever renewed.
    NoRenewal,
    /// The default, and a handler that looks at each event.
    WithEvents,
    /// The default, and a subscriber of `tracing` that wants no span.
    SpansRefused,
    /// The default, but a script takes every lock, as it takes all other kinds.
    ScriptsOnly,
    /// `rslock`.
    Rslock,
    /// `redis-lock`.
    RedisLock,
    /// quorumlock's locker on a cluster of etcd, through the lab's lessor.
    Etcd,
    /// No lock at all: two empty round trips.
    Pings,
    /// No lock at all: a token that the server passes on, with one connection per task.
    TokenRing,
    /// The limit of the servers: the raw client's commands for many names at once.
    Bulk,
}

impl Kind {
    /// Whether the subject is measured with this kind of lock.
    #[must_use]
    pub fn takes(self, what: What) -> bool {
        match what {
            What::Lock => true,
            What::Names(_) | What::Permit { .. } => matches!(self, Self::Raw | Self::Default),
            What::Read | What::Write | What::InOrder => self == Self::Default,
        }
    }

    /// What listens to `tracing` while the subject is measured.
    #[must_use]
    pub fn subscriber(self) -> Option<Refusing> {
        (self == Self::SpansRefused).then(Refusing::begin)
    }

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
            Self::Proven => "proven",
            Self::NoRenewal => "no renewal",
            Self::WithEvents => "with events",
            Self::SpansRefused => "spans refused",
            Self::ScriptsOnly => "scripts only",
            Self::Rslock => "rslock",
            Self::RedisLock => "redis-lock",
            Self::Etcd => crate::results::ETCD,
            Self::Pings => "two PINGs",
            Self::TokenRing => "token ring",
            Self::Bulk => "raw in bulk",
        }
    }
}

impl From<Kind> for &'static str {
    fn from(kind: Kind) -> Self {
        kind.name()
    }
}
