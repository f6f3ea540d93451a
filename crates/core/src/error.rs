use std::fmt;
use std::time::Duration;

use quorumlock_watchdog::Loss;

use crate::Name;

/// What can go wrong; each variant says who must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the lock: wait, or come back later.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The call or the configuration is wrong: fix it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lock was lost: stop the work that it guarded.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered: look at the nodes.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The locker was closed: make a new one.
    #[error("the locker is closed")]
    Closed,
}

/// Somebody else holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Which lock.
    pub name: Name,
    /// How long its lease lasts if it is not renewed, as far as the nodes said.
    pub remaining: Option<Duration>,
}

impl std::error::Error for Busy {}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} is held by somebody else", self.name)?;
        match self.remaining {
            Some(left) => write!(f, " (its lease ends in {left:?} unless renewed)"),
            None => Ok(()),
        }
    }
}

impl Busy {
    pub(crate) fn new(name: Name, remaining: Option<Duration>) -> Self {
        Self { name, remaining }
    }
}

/// The lock was lost. Final: it never comes back to this guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock {name:?} was lost: {why}; stop the work that it guarded")]
#[non_exhaustive]
pub struct Lost {
    /// Which lock.
    pub name: Name,
    /// Why.
    pub why: Loss,
}

impl Lost {
    pub(crate) fn new(name: Name, why: Loss) -> Self {
        Self { name, why }
    }
}

/// Too few nodes answered for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreachable {
    /// How many nodes had to answer.
    pub needed: usize,
    /// What each node did that gave no vote.
    pub nodes: Vec<NodeReport>,
}

impl Unreachable {
    /// `needed` votes were wanted; `nodes` gave none.
    pub fn new(needed: usize, nodes: Vec<NodeReport>) -> Self {
        Self { needed, nodes }
    }
}

impl std::error::Error for Unreachable {}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too few Redis nodes answered ({} needed); look at: ", self.needed)?;
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// What one node did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its URL, without user and password.
    pub node: String,
    /// What happened, in words.
    pub what: String,
}

impl NodeReport {
    /// `node` did `what`.
    pub fn new(node: impl Into<String>, what: impl Into<String>) -> Self {
        Self { node: node.into(), what: what.into() }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.what)
    }
}

/// The call or the configuration is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a URL of a Redis server.
    #[error(
        "{url:?} is no Redis URL: {why} (expected redis://, rediss:// or unix://, such as \
         redis://user:password@host:6379/0)"
    )]
    BadUrl {
        /// The text given, without password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificates given to verify TLS servers cannot be used.
    #[error("the CA certificates cannot be used: {0}")]
    BadCertificate(String),
    /// An empty list of nodes.
    #[error("no node was given")]
    NoNodes,
    /// Two addresses are one server: its vote would count twice.
    #[error("{a} and {b} are one server: give each server once, a quorum needs independent nodes")]
    SameServer {
        /// One address.
        a: String,
        /// The other.
        b: String,
    },
    /// A lock without a name.
    #[error("a lock's name must not be empty")]
    EmptyName,
    /// A name that is too long.
    #[error("a lock's name has at most {max} bytes, this one has {len}")]
    NameTooLong {
        /// Bytes of the name given.
        len: usize,
        /// Bytes at most.
        max: usize,
    },
    /// A duration out of bounds.
    #[error("{what} of {value:?} is out of bounds: {min:?} to {max:?}")]
    BadDuration {
        /// Which setting.
        what: &'static str,
        /// The value given.
        value: Duration,
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// A clock-rate allowance out of bounds.
    #[error("rho of {value} is out of bounds: 0 to 0.5")]
    BadRho {
        /// The value given.
        value: f64,
    },
    /// More lost counters to survive than a majority of the nodes can vouch for.
    #[error("tokens cannot survive {losses} lost counters with these nodes: 0 to {most}")]
    TooManyLosses {
        /// The number given.
        losses: usize,
        /// The most.
        most: usize,
    },
    /// More replicas to wait for than there are. A quorum has none: its nodes are masters without
    /// replicas.
    #[error("{asked} replicas cannot acknowledge a lock here: 0 to {most} (0 on a quorum)")]
    TooManyReplicas {
        /// The number given.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// A client name that Redis does not take.
    #[error(
        "client name {0:?} has characters that Redis does not take (spaces, control characters)"
    )]
    BadClientName(String),
    /// The key is held in another library's or the other wire's format (WRONGTYPE).
    #[error(
        "{name:?} on {node} is a key of another type: it is used by the other wire format or by \
         something that is no lock"
    )]
    OtherWire {
        /// Which lock.
        name: Name,
        /// On which node it was seen.
        node: String,
    },
    /// Provisioning without admission.
    #[error("this locker admits every node as it is: there is nothing to provision")]
    NoAdmission,
    /// A node cannot be a voter as it is set up.
    #[error("{node} cannot vote: its {what} is {found}, expected {expected}")]
    UnfitNode {
        /// Which node.
        node: String,
        /// What does not fit.
        what: &'static str,
        /// What it has.
        found: String,
        /// What it must have.
        expected: String,
    },
    /// No async runtime at the place of the call.
    #[error("no tokio runtime here: call from one, or use quorumlock::blocking")]
    NoRuntime,
    /// The operating system gave no thread, event queue or random numbers.
    #[error("the operating system refused {what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        why: String,
    },
}
