//! Re-entry (G8): the holds of one owner share one token. Once the lease is lost, the next entry
//! reports the loss; it never makes a new acquisition while the outer hold exists.

use crate::violation::Violation;
use crate::world::State;

/// Checks an owner that holds `attempt` with token `outer` and entered again with token `inner`.
pub fn check(state: &mut State, attempt: usize, outer: u64, inner: u64) {
    if outer != inner {
        state.violate(Violation::NewToken { attempt, outer, inner });
    }
}
