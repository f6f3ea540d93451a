//! The lock configurations to compare: one node, a replicated node, quorums. All use `Locker`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A lock configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// One standalone node.
    S,
    /// As [`S`](Self::S), and the node votes only while it is known to have kept its data.
    S1,
    /// A master with an asynchronous replica that can be promoted.
    R,
    /// As [`R`](Self::R), with two replicas, and a grant waits for the replicas' acknowledgements.
    W,
    /// As [`R`](Self::R), and a server votes only while it is known to have kept its data.
    RR,
    /// As [`W`](Self::W), and a server votes only while it is known to have kept its data.
    WW,
    /// As [`R`](Self::R), behind sentinels, which tell the clients the master.
    RS,
    /// As [`W`](Self::W), behind sentinels.
    WS,
    /// As [`R`](Self::R), the shard of a Redis Cluster.
    RC,
    /// As [`W`](Self::W), the shard of a Redis Cluster.
    WC,
    /// Plain Redlock on three nodes.
    Q3,
    /// Plain Redlock on five nodes; `Q` for short.
    Q5,
    /// Plain Redlock on seven nodes.
    Q7,
    /// Five nodes; a node votes only while it is known to have kept its data.
    QQ,
    /// As [`QQ`](Self::QQ), and the resource refuses stale fencing tokens.
    QF,
    /// The library's locks on a cluster of etcd, with three members: consensus, to compare with.
    E,
}

/// How clients find a master with replicas, and who promotes a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Clients know all addresses, and an operator promotes. Also servers without replicas.
    Addresses,
    /// Sentinels tell clients the master, and promote a replica.
    Sentinel,
    /// The members of a Redis Cluster tell clients the master, and an operator promotes.
    Cluster,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 16] = [
        Self::S,
        Self::S1,
        Self::R,
        Self::W,
        Self::RR,
        Self::WW,
        Self::RS,
        Self::WS,
        Self::RC,
        Self::WC,
        Self::Q3,
        Self::Q5,
        Self::Q7,
        Self::QQ,
        Self::QF,
        Self::E,
    ];

    /// The modes that run by default: one of each kind on Redis, with clients that know all addresses.
    pub const KINDS: [Self; 9] =
        [Self::S, Self::S1, Self::R, Self::W, Self::RR, Self::WW, Self::Q5, Self::QQ, Self::QF];

    /// The number of nodes that a locker is configured with.
    #[must_use]
    pub fn voters(self) -> usize {
        match self {
            Self::Q3 | Self::E => 3,
            Self::Q5 | Self::QQ | Self::QF => 5,
            Self::Q7 => 7,
            _ => 1,
        }
    }

    /// How many of the [`voters`](Self::voters) must grant the lock.
    #[must_use]
    pub fn majority(self) -> usize {
        self.voters() / 2 + 1
    }

    /// The number of replicas of the single node.
    #[must_use]
    pub fn replicas(self) -> usize {
        match self {
            Self::R | Self::RR | Self::RS | Self::RC => 1,
            Self::W | Self::WW | Self::WS | Self::WC => 2,
            _ => 0,
        }
    }

    /// Whether a grant waits for the replicas' acknowledgements.
    #[must_use]
    pub fn awaits_replicas(self) -> bool {
        matches!(self, Self::W | Self::WW | Self::WS | Self::WC)
    }

    /// How clients find the master.
    #[must_use]
    pub fn engine(self) -> Engine {
        match self {
            Self::RS | Self::WS => Engine::Sentinel,
            Self::RC | Self::WC => Engine::Cluster,
            _ => Engine::Addresses,
        }
    }

    /// Whether a node votes only while it is known to have kept its data.
    #[must_use]
    pub fn strict(self) -> bool {
        matches!(self, Self::S1 | Self::RR | Self::WW | Self::QQ | Self::QF)
    }

    /// Whether the resource refuses stale fencing tokens.
    #[must_use]
    pub fn fenced(self) -> bool {
        self == Self::QF
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The text is not the name of a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode: S, S1, R, W, RR, WW, RS, WS, RC, WC, Q (Q5), Q3, Q5, Q7, QQ, QF, E")]
pub struct NoMode(String);

impl FromStr for Mode {
    type Err = NoMode;

    fn from_str(word: &str) -> Result<Self, NoMode> {
        let upper = word.trim().to_ascii_uppercase();
        let upper = if upper == "Q" { "Q5" } else { &upper };
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == upper);
        found.ok_or_else(|| NoMode(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("q".parse(), Ok(Mode::Q5));
        assert!("X".parse::<Mode>().unwrap_err().to_string().contains("S, S1, R, W"));
    }
}
