//! A lease is released only when its holder knows (H26): the guard is gone, or the last window end
//! that the holder read has passed. Nodes that still hold a lost lease keep the next holder out
//! until then.

use crate::time::micros;
use crate::violation::Violation;
use crate::world::State;

/// Checks a release that the client's code is about to send for `attempt`.
pub fn check(state: &mut State, client: usize, attempt: usize) {
    let process = &state.processes[client];
    if process.dead || process.stopped {
        return;
    }
    let now = process.now();
    let unheard = state.ledger.holders.iter().find(|holder| holder.attempt == attempt);
    if let Some(holder) = unheard.filter(|holder| holder.promised_until > now) {
        let by_us = micros(holder.promised_until.since(now));
        state.violate(Violation::GivenBackEarly { attempt, by_us });
    }
}
