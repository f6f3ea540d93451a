//! Knowledge of loss (G5, DESIGN.md 10): work is dropped no later than the window shuts, even when
//! no node answers; after definite refusals by too many nodes, it is dropped by the next renewal.

use crate::time::{MS, Micros, micros};
use crate::violation::Violation;
use crate::world::State;

/// Checks the holder of `attempt`, which still works, or learns of the loss only now.
pub fn check(state: &mut State, attempt: usize) {
    let late = late(state, attempt);
    if late > 0 {
        state.violate(Violation::ToldLate { attempt, by_us: late });
    }
}

fn late(state: &State, number: usize) -> Micros {
    let attempt = &state.ledger.attempts[number];
    let process = &state.processes[attempt.client];
    let mut late = micros(process.now().since(attempt.window()));
    if attempt.before > attempt.window() {
        // A node refused. The round may still wait for the other nodes' answers. If the refusal
        // came too late for its own round, the next round reports it, at most two thirds of a lease
        // later.
        let waited = attempt.refused_at + 2 * state.plan.answer_timeout + state.plan.lease * 2 / 3;
        late = late.min(state.now.saturating_sub(waited));
    }
    // A stopped process learns nothing before it resumes.
    late = late.min(state.now.saturating_sub(process.resumed_at));
    late.saturating_sub(tolerance(state))
}

/// Timers follow the world's time and may fire one tick late, and the client's clock may be faster.
fn tolerance(state: &State) -> Micros {
    3 * MS + (state.plan.lease as f64 * 2.0 * state.plan.max_clock_drift * 0.3) as Micros
}
