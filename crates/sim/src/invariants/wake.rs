//! Waking (PROTOCOL.md W1 to W4): a lock that was released and that somebody waits for is taken
//! within a bound that has nothing to do with the lease.

use quorumlock_protocol::Claim;

use crate::time::{MS, Micros};
use crate::violation::Violation;
use crate::world::State;

/// The bound from the release to the next grant, in round trips: messages, retries after split
/// votes.
const MAX_ROUND_TRIPS: u64 = 30;
/// Shorter than the sleep of a waiter between polls, so that a poll does not hide a missing
/// notification.
const MIN_BOUND: Micros = 110 * MS;

/// Checks a grant to `attempt` in the calm phase. For `free`, the lock was free and had waiters.
pub fn check(state: &mut State, attempt: usize, free: Micros) {
    let round_trip = 2 * (2 * state.plan.latency + state.plan.jitter);
    if free > MIN_BOUND.max(MAX_ROUND_TRIPS * round_trip) {
        state.violate(Violation::NotWoken { attempt, after_us: free });
    }
}

impl State {
    /// `client` is told that a name was handed off to `attempt`. The queue member may be a leftover
    /// of a lost or repeated request. Then `client` releases the name if it waits for it; otherwise
    /// the name stays held until its lease ends (PROTOCOL.md W5).
    pub fn record_lost_handoff(
        &mut self,
        (client, node): (usize, usize),
        claim: &Claim,
        attempt: usize,
    ) {
        if !self.ledger.attempts[attempt].nodes[node].tainted {
            return;
        }
        let (now, server) = (self.now, &self.servers[node]);
        let left = match self.processes[client].waits_for(node, claim) {
            true => 0,
            false => server.store.remaining(claim.name(), server.clock.micros(now)).unwrap_or(0),
        };
        // The node's clock may be slow.
        let left = (left as f64 * (1.0 + self.plan.max_clock_drift)) as u64 * MS;
        self.workload.lost_handoff_time += if self.healed { left } else { 0 };
        self.workload.free_from(claim.name(), now + left);
    }
}
