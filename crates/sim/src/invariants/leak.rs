//! Clean-up (H16, H17, DESIGN.md 9): an attempt that its client gave up leaves no key on a node
//! once none of its messages is on its way; where a message was lost, no longer than its lease.

use crate::bug::Bug;
use crate::violation::Violation;
use crate::world::State;

/// Checks what the node holds for the attempt `number`, now.
pub fn check(state: &mut State, node: usize, number: usize) {
    let Some(attempt) = state.ledger.attempts.get(number) else { return };
    let view = &attempt.nodes[node];
    if !attempt.over || view.open > 0 || view.travelling > 0 || state.closed {
        return;
    }
    let process = &state.processes[attempt.client];
    if process.dead || process.stopped || state.bug == Some(Bug::OwnerNotNonce) {
        return;
    }
    let server = &state.servers[node];
    let time = server.clock.micros(state.now);
    let holds = |name| server.store.holders(name, time).any(|held| held.nonce == attempt.nonce);
    if !attempt.claim.names().any(holds) {
        return;
    }
    let owed = view.owed_until > state.now;
    let why = match view.last {
        // Each of several names has a release of its own, and is repeated by itself.
        "release" if attempt.claim.is_one() => "it executed the release",
        _ if !view.tainted && !owed => "nobody releases it",
        _ => return,
    };
    state.violate(Violation::Leaked { node, attempt: number, why });
}

/// Checks all nodes at the end: all locks were released a while ago, and no message is on its way.
pub fn check_all(state: &mut State) {
    // Where a message was delayed or lost, the key ends only with its lease.
    let tainted = |node: usize, nonce| {
        let number = state.ledger.number(nonce);
        number.is_some_and(|number| state.ledger.attempts[number].nodes[node].tainted)
    };
    let left = state.servers.iter().enumerate().find_map(|(node, server)| {
        let time = server.clock.micros(state.now);
        let mut held = server.store.all_held(time);
        let (name, _) = held.find(|(_, held)| !tainted(node, held.nonce))?;
        Some((node, name))
    });
    if let Some((node, name)) = left {
        state.violate(Violation::LeftBehind { node, name });
    }
}
