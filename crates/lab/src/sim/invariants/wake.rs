//! Waking (safety.md e1 to e5): a lock that was released and that somebody waits for is taken
//! within a bound that has nothing to do with the lease.

use super::Violation;
use crate::sim::time::{MS, Micros};
use crate::sim::world::State;

/// From the release to the next grant, in round trips: messages, retries after split votes.
const ROUND_TRIPS: u64 = 30;
/// As long as a waiter sleeps, at most, before it looks by itself: a turn can be lost with whoever was
/// given it (decision 15; seed 19974 shows one, on the way from node to node).
const LEAST: Micros = 250 * MS;
/// With a planted bug less than that: it must not hide a message that nobody sent.
const LEAST_PLANTED: Micros = 110 * MS;

/// In the calm: `attempt` was granted, and for `free` the lock was free and waited for.
pub(in crate::sim) fn check(state: &mut State, attempt: usize, free: Micros) {
    let round_trip = 2 * (2 * state.plan.latency + state.plan.jitter);
    let least = if state.bug.is_some() { LEAST_PLANTED } else { LEAST };
    if free > least.max(ROUND_TRIPS * round_trip) {
        state.violate(Violation::NotWoken { attempt, after_us: free });
    }
}
