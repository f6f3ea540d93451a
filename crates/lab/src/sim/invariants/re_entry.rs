//! Re-entry (G8): the holds of one owner share one token; once the lease is lost the next one is
//! told so, and never gets a new acquisition behind the back of the outer hold.

use super::Violation;
use crate::sim::world::State;

/// An owner that holds `attempt` with token `outer` entered again and got `inner`.
pub(in crate::sim) fn check(state: &mut State, attempt: usize, outer: u64, inner: u64) {
    if outer != inner {
        state.violate(Violation::NewToken { attempt, outer, inner });
    }
}
