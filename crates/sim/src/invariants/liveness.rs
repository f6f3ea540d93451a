//! Liveness (G6): once the faults have stopped and their effects have expired, every client that
//! asks gets the lock, if contention is finite.

use crate::plan::HEALING_ROUNDS;
use crate::time::{MS, Micros};
use crate::violation::Violation;
use crate::world::State;

/// The time that each task ahead may take to get and to release the lock.
const MAX_TIME_AHEAD: Micros = 400 * MS;

/// The longest time that a task may wait in the healing phase. A name that was handed off to a
/// waiter in vain becomes free when its lease has ended.
pub fn longest_wait(state: &State) -> Micros {
    let tasks = (state.plan.clients * state.plan.tasks) as u64;
    tasks * MAX_TIME_AHEAD * HEALING_ROUNDS as u64 + state.workload.lost_handoff_time
}

/// Checks a request that `client` made `waited` ago.
pub fn check(state: &mut State, client: usize, waited: Micros) {
    if waited > longest_wait(state) {
        let why = "it still waits".to_owned();
        state.violate(Violation::NotAcquired { client, after_us: waited, why });
    }
}
