//! The per-node lemma (PROTOCOL.md WIN2): at every instant every node has at most one acquisition
//! with e_n > now, over all clients, unless all of them read. Mutual exclusion needs nothing else.
//!
//! A client's belief in a node begins or grows only when an answer is delivered, so the lemma is
//! checked then. A stopped client is judged by the time that really passes.

use crate::violation::Violation;
use crate::world::State;

/// Checks that the node has granted each name to one attempt at a time.
pub fn check(state: &mut State, node: usize, attempt: usize) {
    let Some(this) = state.ledger.attempts.get(attempt) else { return };
    for name in this.claim.clone().names() {
        let State { ledger, processes, .. } = &mut *state;
        let Some(believers) = ledger.believers.get_mut(&(node, name.clone())) else { continue };
        let attempts = &ledger.attempts;
        believers.retain(|number| {
            let other = &attempts[*number];
            let process = processes.get(other.client);
            process.is_some_and(|p| !p.dead && other.nodes[node].until > p.now())
        });
        let rival = believers.iter().copied().find(|other| {
            *other != attempt && attempts[*other].claim.excludes(&attempts[attempt].claim)
        });
        if let Some(rival) = rival.filter(|_| believers.contains(&attempt)) {
            state.violate(Violation::TwoBelieve { node, attempts: [rival, attempt] });
        }
    }
}
