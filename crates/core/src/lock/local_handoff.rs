//! A lease passes from task to task inside a process, without a message to the nodes.
//!
//! The nodes see one longer acquisition. Each holder has its own token, from the block that the
//! first holder reserved. The number of handoffs and their duration are bounded, so that other
//! processes get the lock, too.

use std::time::Duration;

use quorumlock_protocol::waiting::TUNING;
use quorumlock_protocol::{FencingToken, Grant, Instant};

/// The local handoffs of one lease so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandoffChain {
    /// When the granted attempt was sent, and how long the lease was valid from then on.
    pub(super) since: Instant,
    pub(super) window: Duration,
    /// How many local handoffs the lease has had.
    pub(super) handoffs: u32,
    /// The last token of the block.
    pub(super) last_token: FencingToken,
}

const _: () = assert!(
    (TUNING.max_local_handoffs as u64) < FencingToken::BLOCK,
    "each has a token of its own"
);

impl HandoffChain {
    /// Starts the chain of a fresh lease; also returns the token of the first holder.
    pub(super) fn begin(since: Instant, grant: Grant) -> (Self, FencingToken) {
        let Grant { until, token: last, counted } = grant;
        let window = until.since(since);
        let others = if counted { 0 } else { FencingToken::BLOCK - 1 };
        // Without fencing both tokens are `FencingToken::NONE`.
        let first = FencingToken::new(last.get().saturating_sub(others));
        (Self { since, window, handoffs: 0, last_token: last }, first)
    }

    /// The chain of a lease that came from another process, which kept the block of tokens: this process
    /// takes none after the first.
    pub(super) fn of_ticket(since: Instant, until: Instant, last_token: FencingToken) -> Self {
        let handoffs = TUNING.max_local_handoffs;
        Self { since, window: until.since(since), handoffs, last_token }
    }

    /// Whether a lease with the token `token`, valid until `until`, may pass on at `now`.
    pub(super) fn may_pass(&self, token: FencingToken, until: Instant, now: Instant) -> bool {
        let tokens_left = token < self.last_token || token == FencingToken::NONE;
        // A window more than half over is a sign that the nodes do not answer renewals.
        tokens_left
            && self.handoffs < TUNING.max_local_handoffs
            && now.since(self.since) < TUNING.max_local_handoff_time
            && until.since(now) >= self.window / 2
    }

    /// The chain of the next holder, and the holder's token after that of `token`.
    pub(super) fn next(self, token: FencingToken) -> (Self, FencingToken) {
        let next = match token {
            FencingToken::NONE => FencingToken::NONE,
            token => FencingToken::new(token.get() + 1),
        };
        (Self { handoffs: self.handoffs + 1, ..self }, next)
    }
}
