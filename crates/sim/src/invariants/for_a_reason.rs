//! No false loss (G5): a lease ends because its window shut on the holder's clock, because too many
//! nodes refused it, or at its limit. A missing answer ends nothing.

use std::time::Duration;

use quorumlock_protocol::{LossReason, quorum_of};

use crate::time::{MS, duration};
use crate::violation::Violation;
use crate::world::State;

/// Work is dropped this long before the window shuts; it includes a few ticks.
const EARLY: Duration = Duration::from_millis(8);

/// Checks the loss of the attempt `number`, now.
pub fn check(state: &mut State, number: usize, loss: LossReason) {
    let attempt = &state.ledger.attempts[number];
    // Answers after the end of the lease saved nothing.
    let over = attempt.ended;
    let holds = |view: &&crate::ledger::View| {
        !view.denied && if over { view.counted } else { view.granted }
    };
    let held = attempt.nodes.iter().filter(holds).count();
    let left = attempt.window().since(state.processes[attempt.client].now());
    let ended = attempt.ended_at.min(state.now);
    // An answer that comes between two rounds counts in the next one.
    let mut waited = state.plan.answer_timeout + state.plan.lease / 15 + 3 * MS;
    if state.plan.cluster.is_some() {
        // The answer to a top-up comes after that.
        waited += state.plan.answer_timeout;
    }
    // A stopped process handles no answers.
    let grown = attempt.grown_at.max(state.processes[attempt.client].resumed_at);
    // The lessor of a single node no longer waited for that answer.
    let unheard = attempt.nodes.len() == 1 && attempt.late_at >= attempt.grown_at;
    // The client may handle the answers to two overlapping renewals in either order, and the last
    // one handled counts.
    let early = match attempt.nodes.len() {
        1 => EARLY + duration(state.plan.lease / 15),
        _ => EARLY,
    };
    // The loss was decided before the answer to a top-up came, and reported after it.
    let topped = ended <= attempt.topped_at + state.plan.answer_timeout + 3 * MS;
    let why = match loss {
        LossReason::Gone | LossReason::Forced
            if held >= quorum_of(attempt.nodes.len()) && !topped =>
        {
            format!("{held} nodes granted it and never said no")
        }
        // An answer that arrives while the client waits for an earlier one is handled after that
        // one.
        LossReason::WindowShut if left > early && !unheard && ended > grown + waited => {
            format!("its window is open for {left:?}")
        }
        _ => return,
    };
    state.violate(Violation::NoReason { attempt: number, why });
}
