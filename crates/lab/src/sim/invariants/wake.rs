//! Waking (safety.md e1 to e6): a lock that was released and that somebody waits for is taken
//! within a bound that has nothing to do with the lease.

use quorumlock_core::Name;

use super::Violation;
use crate::sim::time::{MS, Micros};
use crate::sim::world::State;

/// From the release to the next grant, in round trips: messages, retries after split votes.
const ROUND_TRIPS: u64 = 30;
/// Less than a waiter sleeps before it looks by itself: that must not hide a message that nobody sent.
const LEAST: Micros = 110 * MS;

/// In the calm: `attempt` was granted, and for `free` the lock was free and waited for.
pub(in crate::sim) fn check(state: &mut State, attempt: usize, free: Micros) {
    let round_trip = 2 * (2 * state.plan.latency + state.plan.jitter);
    if free > LEAST.max(ROUND_TRIPS * round_trip) {
        state.violate(Violation::NotWoken { attempt, after_us: free });
    }
}

impl State {
    /// `client` is told that a name was handed over to `attempt`. To a place that a lost or repeated request left
    /// in the queue, perhaps: then `client` gives it back if it waits, else its claim ends (SAFETY.md e7).
    pub(in crate::sim) fn handed_in_vain(
        &mut self,
        (client, node): (usize, usize),
        name: &Name,
        attempt: usize,
    ) {
        if !self.ledger.attempts[attempt].nodes[node].tainted {
            return;
        }
        let (now, server) = (self.now, &self.servers[node]);
        let claim = match self.processes[client].waits_for(node, name) {
            true => 0,
            false => server.store.inspect(name, server.clock.micros(now)).map_or(0, |(_, ms)| ms),
        };
        self.bench.free_from(name, now + claim * MS);
    }
}
