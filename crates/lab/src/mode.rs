//! What is compared: one node, a replicated one, quorums. All through the same `Locker`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How locks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// One standalone node.
    S,
    /// A master with an asynchronous replica, which may be promoted.
    R,
    /// As [`R`](Self::R), with two replicas, and grants that await the replicas' acknowledgement.
    W,
    /// Plain Redlock on three nodes.
    Q3,
    /// Plain Redlock on five nodes; `Q` for short.
    Q5,
    /// Plain Redlock on seven nodes.
    Q7,
    /// Five nodes, of which only those vote whose memory is proven.
    QQ,
    /// As [`QQ`](Self::QQ), and the resource refuses stale fencing tokens.
    QF,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::S, Self::R, Self::W, Self::Q3, Self::Q5, Self::Q7, Self::QQ, Self::QF];

    /// What a comparison runs unless told otherwise: one of each kind.
    pub const KINDS: [Self; 6] = [Self::S, Self::R, Self::W, Self::Q5, Self::QQ, Self::QF];

    /// How many nodes a locker is told of.
    #[must_use]
    pub fn voters(self) -> usize {
        match self {
            Self::S | Self::R | Self::W => 1,
            Self::Q3 => 3,
            Self::Q5 | Self::QQ | Self::QF => 5,
            Self::Q7 => 7,
        }
    }

    /// How many of these must grant.
    #[must_use]
    pub fn majority(self) -> usize {
        self.voters() / 2 + 1
    }

    /// How many replicas the one node has.
    #[must_use]
    pub fn replicas(self) -> usize {
        match self {
            Self::R => 1,
            Self::W => 2,
            _ => 0,
        }
    }

    /// Whether only nodes vote whose memory is proven.
    #[must_use]
    pub fn strict(self) -> bool {
        matches!(self, Self::QQ | Self::QF)
    }

    /// Whether the resource refuses stale tokens.
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

/// A word that is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode: S, R, W, Q (Q5), Q3, Q5, Q7, QQ, QF")]
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
        assert!("X".parse::<Mode>().unwrap_err().to_string().contains("S, R, W"));
    }
}
