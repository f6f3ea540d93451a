//! An unlock that succeeds because an earlier request has freed the lock tells the truth (G6,
//! decision 0031): a release was executed there while the node held it.

use super::Violation;
use crate::sim::world::State;

/// A repeated release of `attempt` heard "not held" at `node`, and takes that for a success.
pub(in crate::sim) fn check(state: &mut State, node: usize, attempt: usize) {
    if !state.ledger.attempts[attempt].nodes[node].freed {
        state.violate(Violation::NotFreed { node, attempt });
    }
}
