//! No false loss (G5): a lease ends because its window shut on the holder's clock, because too many
//! nodes themselves said no, or at its limit. An answer that is missing ends nothing.

use std::time::Duration;

use quorumlock_core::{Loss, quorum_of};

use super::Violation;
use crate::sim::time::{MS, duration};
use crate::sim::world::State;

/// Work is dropped so long before the window shuts, and a few ticks.
const EARLY: Duration = Duration::from_millis(8);

pub(in crate::sim) fn check(state: &mut State, number: usize, loss: Loss) {
    let attempt = &state.ledger.attempts[number];
    // What came after that saved nothing.
    let over = attempt.ended;
    let stands = |view: &&crate::sim::ledger::View| {
        !view.said_no && if over { view.counted } else { view.granted }
    };
    let held = attempt.nodes.iter().filter(stands).count();
    let left = attempt.window().since(state.processes[attempt.client].now());
    let ended = attempt.ended_at.min(state.now);
    // An answer that comes between two rounds is told by the next one.
    let mut waited = state.plan.answer_timeout + state.plan.lease / 15 + 3 * MS;
    if state.plan.charter.is_some() {
        // A top-up is answered after that.
        waited += state.plan.answer_timeout;
    }
    // While it is stopped it looks at nothing.
    let grown = attempt.grown_at.max(state.processes[attempt.client].went_on);
    // A single node's lessor has stopped listening by then.
    let unheard = attempt.nodes.len() == 1 && attempt.late_at >= attempt.grown_at;
    // Answers to two of its renewals that overlap may be taken in either order, and the last one counts.
    let early = match attempt.nodes.len() {
        1 => EARLY + duration(state.plan.lease / 15),
        _ => EARLY,
    };
    // Decided before the answer to a top-up came, told after it.
    let topped = ended <= attempt.topped_at + state.plan.answer_timeout + 3 * MS;
    let why = match loss {
        Loss::Gone if held >= quorum_of(attempt.nodes.len()) && !topped => {
            format!("{held} nodes granted it and never said no")
        }
        // What comes in while an earlier answer is still waited for is only looked at after that.
        Loss::WindowShut if left > early && !unheard && ended > grown + waited => {
            format!("its window is open for {left:?}")
        }
        _ => return,
    };
    state.violate(Violation::NoReason { attempt: number, why });
}
