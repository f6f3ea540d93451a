//! What large searches leave out, and why they still find every broken rule. The full plan runs
//! some searches both ways.
//!
//! - A client does not hear a *no*. No decision counts it. If a raise is not accepted in time, the
//!   client proposes another token also when it is told that no answer will come. (Planted rules
//!   that count a no are exempt.)
//! - The client is told that no answer will come only for a raise, and only where it then proposes
//!   another token.
//! - An acquisition that has ended sends nothing more, and the name becomes free at once where it
//!   held it. Its messages on the way could only make nodes say no, or move marks without a grant,
//!   as M12 does. (The name does not become free where a release hands it over.)
//! - A client starts when a node first serves it. The latest possible start is the strictest one
//!   for the order of tokens, and no other client sees an earlier start.
//! - A client gives up only where names do not become free otherwise.
//! - A request is carried out twice only where it was granted. A refused request counts for
//!   nothing. A raise that is carried out twice finds its own token, and does nothing.
//! - Answers are heard at once: hearing one later could only return the same token later, or
//!   propose another one later. (This does not hold where a search checks the order of wins, or
//!   where a planted rule depends on late answers.)
//! - Nodes that were never used are interchangeable: they are used in the order of their numbers.

use super::client::{Client, Phase};
use super::rule::{Form, Loss, Rule, Windows};
use super::server::Server;
use super::wire::{Way, What, Wire};
use super::{Action, State, TokenModel};

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// The actions that clients and nodes may take now, without those that cannot matter.
    pub(super) fn few_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                if self.is_next(state, c) {
                    self.begins(state, c, actions);
                }
                continue;
            }
            for (n, what, way) in client.messages() {
                if matches!(way, Way::Answered(_)) {
                    actions.push(Action::Receive(c, n, what));
                } else if self.in_order(state, n) && self.matters(what, c, state, n) {
                    actions.push(Action::Serve(c, n, what));
                }
                if way == Way::Asked && what != What::Name {
                    actions.push(Action::NoAnswer(c, n, what));
                }
            }
            if self.windows != Windows::Unknown && client.phase == Phase::Open {
                actions.push(Action::Close(c));
            }
        }
    }

    fn begins(&self, state: &State<N, K>, c: usize, actions: &mut Vec<Action>) {
        let may = |n: &usize| {
            let node = &state.nodes[*n];
            let free = node.admits(c, &self.claims) || self.rule == Rule::DenierConfirms;
            let first = self.windows != Windows::HomeFirst || *n == 0;
            free && first && !state.nodes[*n].amnesic && self.in_order(state, *n)
        };
        for n in (0..N).filter(may) {
            actions.extend(self.proposals(0).map(|token| Action::Begin(c, n, token)));
        }
    }

    /// Whether a client hears the answer in the step in which the node carries out the request.
    pub(super) fn receives_at_once(&self, what: What) -> bool {
        let planted = match what {
            What::Name => self.loss == Loss::Repaired(Form::IncarnationsWhenSent),
            What::Token(_) => self.rule == Rule::OlderConfirms,
        };
        self.frugal && self.windows == Windows::Unknown && !planted
    }

    pub(super) fn tidy(&self, state: &mut State<N, K>) {
        let State { nodes, clients, .. } = state;
        for (c, client) in clients.iter_mut().enumerate().filter(|(_, client)| client.has_ended()) {
            client.wires.iter_mut().for_each(Wire::clear);
            client.bound = [0; N];
            if self.copies == 0 {
                client.first = 0;
            }
            if !self.handoff {
                nodes.iter_mut().for_each(|node| node.free(c));
            }
        }
    }

    /// Whether carrying out the request can have an effect.
    fn matters(&self, what: What, c: usize, state: &State<N, K>, n: usize) -> bool {
        let (node, client): (&Server, &Client<N>) = (&state.nodes[n], &state.clients[c]);
        if node.amnesic || client.is_stale(node, n, self.loss) {
            return false;
        }
        match what {
            What::Name => node.admits(c, &self.claims) || self.rule == Rule::DenierConfirms,
            What::Token(_) => {
                let planted = matches!(self.rule, Rule::RaiseUnheld | Rule::GoneConfirms);
                planted || node.is_held_by(c, self.claims[c]) || self.rule == Rule::RaisePartlyHeld
            }
        }
    }

    /// Whether all interchangeable nodes with smaller numbers have been used.
    pub(super) fn in_order(&self, state: &State<N, K>, n: usize) -> bool {
        let [start] = self.marks[..] else { return true };
        // Node 0 loses its data, or is the home node: it is not interchangeable with the others.
        let special = self.loss != Loss::Never || self.windows == Windows::HomeFirst;
        let first = usize::from(special);
        let used = |n: usize| state.nodes[n] != Server::new(start[n]) || state.repair.has_shown(n);
        start.iter().any(|mark| *mark != 0) || n <= first || used(n - 1)
    }
}
