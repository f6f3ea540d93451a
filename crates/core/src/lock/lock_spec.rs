use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::{Busy, Claim, ConfigError, Error, Instant, NodeProblem};

use super::lease::Lease;

/// What one call asks for: which lock, with which lease, and for how long it waits.
#[derive(Clone)]
pub(super) struct LockSpec {
    pub(super) claim: Claim,
    pub(super) lease: Duration,
    /// The lease that the caller set; `None` if `lease` is the locker's default.
    pub(super) explicit_lease: Option<Duration>,
    pub(super) hold_at_most: Option<Duration>,
    /// The limit that the caller set; `None` if `hold_at_most` is the locker's default.
    pub(super) explicit_limit: Option<Duration>,
    /// What the nodes tell of this hold; `None`: the locker's label.
    pub(super) label: Option<Arc<str>>,
    pub(super) deadline: Option<Instant>,
    /// Whether the call does not wait for a holder (`try_lock`).
    pub(super) once: bool,
    /// Whether the call fails at the first attempt that too few nodes answer.
    pub(super) fail_fast: bool,
}

impl LockSpec {
    /// The lease to ask the nodes for.
    pub(super) fn ttl(&self) -> Duration {
        self.hold_at_most.map_or(self.lease, |limit| limit.min(self.lease))
    }

    /// Whether the caller may re-enter `outer`: the options that it set must equal those of
    /// `outer`.
    pub(super) fn fits(&self, outer: &Lease) -> Result<(), ConfigError> {
        let held = outer.state.timing().lease;
        // A hold that is shorter than the lease requests a lease of its own length.
        let would_be = |lease: Duration| outer.hold_at_most.map_or(lease, |limit| limit.min(lease));
        let (what, asked, held) = match (self.explicit_lease, self.explicit_limit) {
            (Some(lease), _) if would_be(lease) != held => ("lease", lease, Some(held)),
            (_, Some(limit)) if outer.hold_at_most != Some(limit) => {
                ("hold_at_most", limit, outer.hold_at_most)
            }
            _ => return Ok(()),
        };
        Err(ConfigError::ReEntryDiffers { name: self.claim.to_string(), what, asked, held })
    }

    /// Whether asking again can help after `error`. New nodes are admitted after the longest lease:
    /// only a call with a deadline waits for that.
    pub(super) fn heals(&self, error: &Error) -> bool {
        let needs_new = match error {
            Error::Refused(none) | Error::Unreachable(none) => {
                let new = none.nodes.iter().filter(|node| node.problem == NodeProblem::New);
                new.count() > none.of.saturating_sub(none.needed)
            }
            _ => false,
        };
        error.is_retryable() && (self.deadline.is_some() || !needs_new)
    }

    pub(super) fn busy(&self, remaining: Option<Duration>) -> Error {
        Busy::new(self.claim.label(), remaining).into()
    }
}
