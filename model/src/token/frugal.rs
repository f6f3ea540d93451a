//! What large searches leave out, and why nothing is lost by it. The full plan runs some searches
//! both ways.
//!
//! - A *no* is not heard. No decision counts it for anything, so a client that hears nothing can do
//!   all that one that heard it can. (Not so for the planted rules that do count it.)
//! - The key of a client that has ended goes at once, unless a raise of it is still on its way. All
//!   it could do is to make nodes say no.
//! - A client starts when it is first served: a start as late as that asks the most of the order of
//!   tokens, and nobody sees a client earlier.
//! - A request is carried out twice only where it was granted. Of one that was refused nothing counts.
//! - The answer to a raise is heard at once: hearing it later could only return the same token
//!   later, or find votes void that are not yet.
//! - Nodes that were never used are alike: they are used in order of their numbers.

use super::client::{Phase, Wire};
use super::server::Server;
use super::{Action, Loss, N, Rule, State, TokenModel};

impl<const K: usize> TokenModel<K> {
    /// The requests that nodes may carry out now.
    pub(super) fn serves(&self, state: &State<K>, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            let next = c == 0 || state.clients[c - 1].phase != Phase::Idle;
            let starts = client.phase == Phase::Idle && next;
            for (n, wire) in client.wires.iter().enumerate() {
                let wire = if starts { &Wire::Asked } else { wire };
                if wire.is_request()
                    && self.in_order(state, n)
                    && self.may_say_yes(wire, c, state, n)
                {
                    actions.push(Action::Serve(c, n));
                }
            }
        }
    }

    pub(super) fn tidy(&self, state: &mut State<K>) {
        if self.rule == Rule::DenierConfirms {
            return;
        }
        let State { nodes, clients, .. } = state;
        for (c, client) in clients.iter_mut().enumerate() {
            if !matches!(client.phase, Phase::Returned(_) | Phase::Failed) {
                continue;
            }
            let stale: [bool; N] =
                std::array::from_fn(|n| client.is_stale(&nodes[n], n, self.loss));
            for ((node, wire), stale) in nodes.iter_mut().zip(&mut client.wires).zip(stale) {
                let held = node.holder == Some(c as u8);
                let Wire::RaisingLate(token) = *wire else {
                    node.holder = node.holder.filter(|_| !held);
                    continue;
                };
                let may = held || self.rule == Rule::RaiseUnheld;
                if !may || node.counter >= token || stale {
                    *wire = Wire::Nothing;
                    node.holder = node.holder.filter(|_| !held);
                }
            }
        }
    }

    fn may_say_yes(&self, wire: &Wire, client: usize, state: &State<K>, n: usize) -> bool {
        let node = &state.nodes[n];
        match (self.rule, wire) {
            _ if state.clients[client].is_stale(node, n, self.loss) => false,
            (Rule::DenierConfirms | Rule::RefusalConfirms, _) => true,
            (_, Wire::Asked | Wire::AskedLate) => !node.amnesic && node.holder.is_none(),
            (Rule::RaiseUnheld, _) => !node.amnesic,
            _ => !node.amnesic && node.holder == Some(client as u8),
        }
    }

    /// Whether the nodes that are like this one and have smaller numbers have been used.
    pub(super) fn in_order(&self, state: &State<K>, n: usize) -> bool {
        let [start] = self.counters[..] else { return true };
        // Node 0 is the one that loses its data: it is not like the others.
        let first = if self.loss == Loss::Never { 0 } else { 1 };
        let used = |n: usize| state.nodes[n] != Server::new(start[n]) || state.repair.has_shown(n);
        start[first..].iter().any(|c| *c != start[first]) || n <= first || used(n - 1)
    }
}
