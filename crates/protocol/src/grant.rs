//! The lease that a client asks for, and what a lessor grants.

use std::sync::Arc;
use std::time::Duration;

use crate::{Claim, FencingToken, Instant, Name, Nonce};

/// A request to a node: hold `nonce` at all names of `claim` for `ttl`.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// The names.
    pub claim: Claim,
    /// The acquisition. Nodes match nonces, never owners, so that a late request of an abandoned
    /// attempt releases or extends no other acquisition.
    pub nonce: Nonce,
    /// How long the node keeps the lease without a renewal.
    pub ttl: Duration,
    /// How many guards share the lease: an absolute count, so that a repeated request cannot
    /// inflate it (Redisson #7367).
    pub holds: u32,
    /// What the node tells people of this holder; `None`: the label of its locker.
    pub label: Option<Arc<str>>,
}

impl LeaseRequest {
    /// A request of one hold, without a label of its own.
    pub fn new(claim: impl Into<Claim>, nonce: Nonce, ttl: Duration) -> Self {
        Self { claim: claim.into(), nonce, ttl, holds: 1, label: None }
    }

    /// The name; of several names, the first one.
    pub fn name(&self) -> &Name {
        self.claim.name()
    }

    /// The same request for each name alone.
    pub fn of_each_name(&self) -> impl Iterator<Item = Self> {
        self.claim.of_each_name().map(|claim| Self { claim, ..self.clone() })
    }
}

/// What a lessor granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Until when the lease is valid: on a quorum, the q-th largest of the nodes' instants.
    pub until: Instant,
    /// The fencing token: the last of its block ([`FencingToken::BLOCK`]).
    pub token: FencingToken,
    /// Whether the node counted the token: then it is the only one of its block.
    pub counted: bool,
}

/// The outcome of an acquisition that ended without an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Acquired {
    /// The lock is ours.
    Granted(Grant),
    /// Another client holds the lock. When enough nodes may be free, if they told it.
    Busy(Option<Duration>),
    /// Busy, and the home node gave no answer: a waiter that queued only there is in no queue.
    BusyElsewhere(Option<Duration>),
    /// The votes are split: too few nodes granted, and the home node did not refuse. When enough
    /// nodes may be free, if they told it.
    Split(Option<Duration>),
    /// No decision: a node must be verified first, too few nodes accepted the token, or the script
    /// must be asked. Ask again, with a fresh nonce, and by script.
    Retry,
}
