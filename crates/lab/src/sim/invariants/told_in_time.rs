//! Knowledge of loss (G5, DESIGN.md 10): work is dropped no later than the window shuts, even when
//! every node is silent; after definite noes of too many nodes, by the next renewal.

use super::Violation;
use crate::sim::time::{MS, Micros, micros};
use crate::sim::world::State;

/// The holder of `attempt` works, or learns only now that it must not.
pub(in crate::sim) fn check(state: &mut State, attempt: usize) {
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
        // A node said no: the answers of the others may still be waited for, and if its own came
        // too late for its round, the next round will tell: after a third of a lease.
        let waited = attempt.refused_at + 2 * state.plan.answer_timeout + state.plan.lease * 2 / 3;
        late = late.min(state.now.saturating_sub(waited));
    }
    // A stopped process learns nothing before it goes on.
    late = late.min(state.now.saturating_sub(process.went_on));
    late.saturating_sub(tolerance(state))
}

/// Timers run by the world's time and are late by a tick; the client's clock may be faster.
fn tolerance(state: &State) -> Micros {
    3 * MS + (state.plan.lease as f64 * 2.0 * state.plan.rho * 0.3) as Micros
}
