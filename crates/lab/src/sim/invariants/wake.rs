//! Waking (safety.md e1 to e6): a lock that was released and that somebody waits for is taken
//! within a bound that has nothing to do with the lease.

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
