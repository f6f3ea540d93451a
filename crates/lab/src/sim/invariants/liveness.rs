//! Liveness (G6): once the faults have stopped and what they left has expired, everybody who asks
//! gets the lock, as long as contention is finite.

use super::Violation;
use crate::sim::time::{MS, Micros};
use crate::sim::world::State;

/// How long each of those ahead may take to get the lock and to give it back.
const TURN: Micros = 400 * MS;

/// How long anybody may wait in the calm.
pub(in crate::sim) fn longest_wait(state: &State) -> Micros {
    let hands = (state.plan.clients * state.plan.hands) as u64;
    hands * TURN * crate::sim::calm::CALM_ROUNDS as u64
}

/// `client` asked `waited` ago.
pub(in crate::sim) fn check(state: &mut State, client: usize, waited: Micros) {
    if waited > longest_wait(state) {
        let why = "it still waits".to_owned();
        state.violate(Violation::NotAcquired { client, after_us: waited, why });
    }
}
