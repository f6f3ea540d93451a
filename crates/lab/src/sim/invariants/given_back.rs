//! Nodes are given back only when their holder knows (H26): his guard is gone, or the window that he
//! read last has shut. Those that still hold a lost lease keep the next holder out until then.

use super::Violation;
use crate::sim::time::micros;
use crate::sim::world::State;

/// The client's code is about to release `attempt`.
pub(in crate::sim) fn check(state: &mut State, client: usize, attempt: usize) {
    let process = &state.processes[client];
    if process.dead || process.stopped {
        return;
    }
    let now = process.now();
    let unheard = state.ledger.holders.iter().find(|holder| holder.attempt == attempt);
    if let Some(holder) = unheard.filter(|holder| holder.told > now) {
        let by_us = micros(holder.told.since(now));
        state.violate(Violation::GivenBackEarly { attempt, by_us });
    }
}
