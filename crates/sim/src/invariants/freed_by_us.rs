//! An unlock that succeeds because an earlier request has freed the lock is truthful (G6, decision
//! 0031): the node executed a release while it held the lock for this attempt.

use crate::violation::Violation;
use crate::world::State;

/// Checks a repeated release of `attempt` that heard "not held" at `node` and counts this as a
/// success.
pub fn check(state: &mut State, node: usize, attempt: usize) {
    if !state.ledger.attempts[attempt].nodes[node].freed {
        state.violate(Violation::NotFreed { node, attempt });
    }
}
