//! What large searches leave out, and why nothing is lost by it. The full plan runs some searches
//! both ways.
//!
//! - A *no* is not heard. No decision counts it for anything; that a raise is not accepted in time,
//!   and another token is proposed, the client also learns if it is told that no answer will come.
//!   (Not so for the planted rules that count a no.)
//! - No answer to a raise comes: only where the client proposes another token then.
//! - An acquisition that has ended asks for nothing any more, and the name is free at once where it
//!   held it. What is on its way could make nodes say no, or move marks for nobody, as M12 does.
//!   (The name is not free where a release hands it over.)
//! - A client starts when it is first served: a start as late as that asks the most of the order of
//!   tokens, and nobody sees a client earlier.
//! - A client gives up only where names do not become free without that.
//! - A request is carried out twice only where it was granted. Of one that was refused nothing
//!   counts. A raise that is carried out twice finds its own token, and does nothing.
//! - Answers are heard at once: hearing one later could only return the same token later, or
//!   propose another one later. (Not so where the order of wins is asked for, or a planted rule
//!   rests on it.)
//! - Nodes that were never used are alike: they are used in order of their numbers.

use super::client::{Client, Phase};
use super::rule::{Form, Loss, Rule, Windows};
use super::server::Server;
use super::wire::{Way, What, Wire};
use super::{Action, State, TokenModel};

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// What clients and nodes may do now.
    pub(super) fn few_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                self.begins(state, c, actions);
                // In order of their numbers: clients are alike.
                break;
            }
            for (n, what, way) in client.messages() {
                if matches!(way, Way::Answered(_)) {
                    actions.push(Action::Hear(c, n, what));
                } else if self.in_order(state, n) && self.matters(what, c, state, n) {
                    actions.push(Action::Serve(c, n, what));
                }
                if way == Way::Asked && what != What::Name {
                    actions.push(Action::Silence(c, n, what));
                }
            }
            if self.windows != Windows::Unknown && client.phase == Phase::Open {
                actions.push(Action::Close(c));
            }
        }
    }

    fn begins(&self, state: &State<N, K>, c: usize, actions: &mut Vec<Action>) {
        let may = |n: &usize| {
            let free = state.nodes[*n].holder.is_none() || self.rule == Rule::DenierConfirms;
            let first = self.windows != Windows::HomeFirst || *n == 0;
            free && first && !state.nodes[*n].amnesic && self.in_order(state, *n)
        };
        for n in (0..N).filter(may) {
            actions.extend(self.proposals(0).map(|token| Action::Begin(c, n, token)));
        }
    }

    /// Whether an answer is heard when the node has carried out the request.
    pub(super) fn hears_at_once(&self, what: What) -> bool {
        let planted = match what {
            What::Name => self.loss == Loss::Repaired(Form::StampsWhenSent),
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
            let held = |node: &&mut Server| node.holder == Some(c as u8);
            if !self.hands_over {
                nodes.iter_mut().filter(held).for_each(|node| node.holder = None);
            }
        }
    }

    /// Whether carrying out a request can do anything.
    fn matters(&self, what: What, c: usize, state: &State<N, K>, n: usize) -> bool {
        let (node, client): (&Server, &Client<N>) = (&state.nodes[n], &state.clients[c]);
        if node.amnesic || client.is_stale(node, n, self.loss) {
            return false;
        }
        match what {
            What::Name => {
                let free = node.holder.is_none_or(|holder| holder == c as u8);
                free || self.rule == Rule::DenierConfirms
            }
            What::Token(_) => {
                let planted = matches!(self.rule, Rule::RaiseUnheld | Rule::GoneConfirms);
                planted || node.holder == Some(c as u8)
            }
        }
    }

    /// Whether the nodes that are like this one and have smaller numbers have been used.
    pub(super) fn in_order(&self, state: &State<N, K>, n: usize) -> bool {
        let [start] = self.marks[..] else { return true };
        // Node 0 is the one that loses its data, or is asked first: it is not like the others.
        let special = self.loss != Loss::Never || self.windows == Windows::HomeFirst;
        let first = usize::from(special);
        let used = |n: usize| state.nodes[n] != Server::new(start[n]) || state.repair.has_shown(n);
        start.iter().any(|mark| *mark != 0) || n <= first || used(n - 1)
    }
}
