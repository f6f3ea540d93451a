use std::time::Duration;

use crate::{Acceptance, FencingToken, Instant, NoAnswer, NodeReport};

/// What one node has said so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeVote {
    /// Not asked until the home node has answered.
    Unasked,
    Asked,
    /// Asked, and no longer waited for.
    Late,
    Granted {
        until: Instant,
        token: TokenState,
    },
    /// Granted, but no longer held our nonce when another token was proposed.
    Dropped,
    Busy(Option<Duration>),
    /// Answered with an error, which is no definite no: a node that had granted before holds our
    /// nonce until `held_until` all the same (PROTOCOL.md WIN1).
    Refused {
        report: NodeReport,
        held_until: Instant,
    },
    NoAnswer(NoAnswer),
    Stale(NodeReport),
}

/// What a node that holds our nonce has said about the token that is proposed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenState {
    /// It was not asked about this token yet: it granted at an earlier one.
    Unasked,
    Asked,
    Accepted,
    /// Its mark is this, or larger.
    Behind(FencingToken),
    /// It did not say whether it accepts the token.
    Unconfirmed,
    /// Asked, and no longer waited for.
    Late,
    /// It was verified under another incarnation meanwhile.
    Stale,
}

impl TokenState {
    pub(super) fn of(said: Acceptance) -> Self {
        match said {
            Acceptance::Accepted => Self::Accepted,
            Acceptance::Behind(mark) => Self::Behind(mark),
            // A counted token is of no use to a round: each node would count for itself.
            Acceptance::Counted(_) => Self::Unconfirmed,
        }
    }
}
