//! A lease passes from task to task inside a process, without a message to the nodes.
//!
//! The nodes see one longer acquisition. Each holder has its own token, from the block that the
//! first holder reserved. The number of handoffs and their duration are bounded, so that other
//! processes get the lock, too.

use std::sync::Arc;
use std::sync::{OnceLock, atomic::AtomicU32};
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_protocol::LeaseTiming;
use quorumlock_protocol::waiting::TUNING;
use quorumlock_watchdog::{Clock, LeaseState};

use super::guard::Guard;
use super::lease::Lease;
use super::local_queue::{LocalHandoff, LocalPermit, NextWaiter};
use super::locker::Inner;
use quorumlock_protocol::{Fence, Grant};

/// The local handoffs of one lease so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandoffChain {
    /// When the granted attempt was sent, and how long the lease was valid from then on.
    pub(super) since: Instant,
    pub(super) window: Duration,
    /// How many local handoffs the lease has had.
    pub(super) handoffs: u32,
    /// The last token of the block.
    pub(super) last_token: Fence,
}

const _: () =
    assert!((TUNING.max_local_handoffs as u64) < Fence::BLOCK, "each has a token of its own");

impl HandoffChain {
    /// Starts the chain of a fresh lease; also returns the token of the first holder.
    pub(super) fn begin(since: Instant, grant: Grant) -> (Self, Fence) {
        let Grant { until, fence: last, counted } = grant;
        let window = until.since(since);
        let others = if counted { 0 } else { Fence::BLOCK - 1 };
        // Without fencing both tokens are `Fence::NONE`.
        let first = Fence::new(last.get().saturating_sub(others));
        (Self { since, window, handoffs: 0, last_token: last }, first)
    }
}

impl Inner {
    /// Hands a lease that no guard holds any more off to the next waiter of this process. False if
    /// the caller must release the lease on the nodes.
    pub(super) fn hand_off(self: &Arc<Self>, lease: &Lease, now: Instant) -> bool {
        let timing = lease.standing.timing();
        if !lease.can_hand_off(timing.until, now) {
            return false;
        }
        let Some((permit, next)) = lease.next_waiter(timing.lease) else { return false };
        let hold_at_most = next.hold_at_most();
        let hold_until = hold_at_most.map(|limit| now + limit);
        let successor = |until| {
            let timing = LeaseTiming { until, hold_until, ..timing };
            Arc::new(lease.successor(timing, hold_at_most, &self.clock))
        };
        let passed = self.watchdog.hand_off(lease, now, successor);
        let handed = passed.is_some();
        next.give(match passed {
            Some(successor) => {
                *successor.permit() = Some(permit);
                LocalHandoff::Guard(Guard::new(self.clone(), successor))
            }
            // The lease was lost meanwhile: the waiter receives the permit alone.
            None => LocalHandoff::Permit(permit),
        });
        handed
    }
}

impl Lease {
    fn can_hand_off(&self, until: Instant, now: Instant) -> bool {
        let HandoffChain { since, window, handoffs: handed, last_token: last } = self.chain;
        let tokens_left = self.fence < last || self.fence == Fence::NONE;
        // A window more than half over is a sign that the nodes do not answer renewals.
        tokens_left
            && handed < TUNING.max_local_handoffs
            && now.since(since) < TUNING.max_local_handoff_time
            && until.since(now) >= window / 2
    }

    /// The next local waiter, if it can take over a lease of `ttl`, and the permit that passes to
    /// it.
    fn next_waiter(&self, ttl: Duration) -> Option<(LocalPermit, NextWaiter)> {
        let mut permit = self.permit();
        let next = permit.as_ref()?.next_waiter(ttl)?;
        permit.take().map(|permit| (permit, next))
    }

    /// The same lease on the nodes, for the next holder: with the next token and a lease state of
    /// its own.
    fn successor(
        &self,
        timing: LeaseTiming,
        hold_at_most: Option<Duration>,
        clock: &Clock,
    ) -> Self {
        Self {
            id: self.id,
            name: self.name.clone(),
            nonce: self.nonce,
            fence: match self.fence {
                Fence::NONE => Fence::NONE,
                fence => Fence::new(fence.get() + 1),
            },
            chain: HandoffChain { handoffs: self.chain.handoffs + 1, ..self.chain },
            standing: LeaseState::new(clock.clone(), timing),
            hold_at_most,
            holds: AtomicU32::new(1),
            permit: std::sync::Mutex::new(None),
            owner_slot: OnceLock::new(),
        }
    }
}
