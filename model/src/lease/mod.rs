//! Leases, on an exact clock (PROTOCOL.md WIN1 to WIN3).
//!
//! Three nodes, clients that make one acquisition each, ticks instead of time. Messages may be late
//! or lost; nodes may lose all their data. The question: can two clients believe at the same tick
//! that they hold the lock? With a takeover delay: can one believe so sooner than that after another
//! one has lost the lock?

mod client;
mod model;
mod rule;
mod server;

use stateright::{Model, Property};

use crate::admission::Quarantine;
use client::{Client, Phase, Wire};
use model::at;
pub use model::{CLIENTS, LeaseModel, N, TTL};
pub use rule::Rule;
use server::{Asks, Server};

/// The state of all nodes and clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const C: usize> {
    now: u8,
    nodes: [Server; N],
    clients: [Client; C],
    crashes: u8,
}

/// One step of the world: a client, a node, and which of the client's requests (0 is the
/// acquisition, then its renewals).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client asks all nodes for the lock.
    Start(usize),
    /// A holder asks all nodes to lengthen its lease.
    Renew(usize),
    /// A node carries out a request.
    Serve(usize, usize, usize),
    /// The client hears the answer.
    Hear(usize, usize, usize),
    /// The holder releases the lock, or the client gives up.
    End(usize),
    /// A node carries out the release of a client that has ended.
    Free(usize, usize),
    /// A node loses its data.
    Crash(usize),
    /// Time advances by one tick.
    Tick,
}

impl<const C: usize> Model for LeaseModel<C> {
    type State = State<C>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![State {
            now: 0,
            nodes: Default::default(),
            clients: std::array::from_fn(|_| Client::new()),
            crashes: 0,
        }]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            // Clients that ask alike are interchangeable: they start in the order of their numbers.
            let waits = |d: usize| self.is_alike(c, d) && state.clients[d].phase == Phase::Idle;
            let starts = client.phase == Phase::Idle && !(0..c).any(waits);
            let renews = client.renewals_begun() < self.renewals && client.holds();
            let serves = |k: usize| (0..N).map(move |n| Action::Serve(c, n, k));
            if self.frugal && starts {
                actions.extend(serves(0).filter(|a| self.may_say_yes(state, *a)));
            } else if starts {
                actions.push(Action::Start(c));
            }
            if self.frugal && renews {
                let next = serves(client.renewals_begun() + 1);
                actions.extend(next.filter(|a| self.may_say_yes(state, *a)));
            } else if renews {
                actions.push(Action::Renew(c));
            }
            client.wires(|k, n, wire| {
                let serve = Action::Serve(c, n, k);
                match wire {
                    Wire::Asked if !self.frugal || self.may_say_yes(state, serve) => {
                        actions.push(serve);
                    }
                    Wire::Answered(_) => actions.push(Action::Hear(c, n, k)),
                    _ => {}
                }
            });
            if self.frugal {
                if self.delay > 0 && client.holds() {
                    actions.push(Action::End(c));
                }
                continue;
            }
            match client.phase {
                Phase::Idle => {}
                Phase::Over if !self.may_free(client, state.now) => {}
                Phase::Over => {
                    let held = (0..N).filter(|n| state.nodes[*n].is_held_by(c, self.claims[c]));
                    actions.extend(held.map(|n| Action::Free(c, n)));
                }
                _ => actions.push(Action::End(c)),
            }
        }
        // Nodes are interchangeable, so it is enough that node 0 crashes first, then node 0 or node
        // 1.
        if state.crashes < self.crashes {
            actions.extend((0..=usize::from(state.crashes).min(N - 1)).map(Action::Crash));
        }
        if state.now < self.horizon {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        let mut next = state.clone();
        let State { now, nodes, clients, crashes } = &mut next;
        match action {
            Action::Start(c) => clients[c].start(*now, self.counted(c)),
            Action::Renew(c) => clients[c].renew(*now, self.counted(c)),
            Action::Serve(c, n, k) => {
                let client = &mut clients[c];
                if self.frugal && k == 0 && client.phase == Phase::Idle {
                    client.start(*now, self.counted(c));
                }
                if self.frugal && k > client.renewals_begun() {
                    client.renew(*now, self.counted(c));
                }
                client.serve(c, &mut nodes[n], n, k, *now, self);
                if self.frugal {
                    client.receive(n, k, *now, self.delay);
                }
            }
            Action::Hear(c, n, k) => clients[c].receive(n, k, *now, self.delay),
            Action::End(c) => clients[c].release(),
            Action::Free(c, n) => nodes[n].free(c),
            Action::Crash(n) => {
                *crashes += 1;
                nodes[n].crash(*now, self.quarantine, self.longest());
            }
            Action::Tick => {
                *now += 1;
                nodes.iter_mut().for_each(|node| node.pass(*now));
                clients.iter_mut().for_each(|client| client.pass(*now, self.delay));
            }
        }
        if self.frugal {
            for (c, client) in clients.iter_mut().enumerate() {
                if client.phase == Phase::Over {
                    client.forget();
                    if self.may_free(client, *now) {
                        nodes.iter_mut().for_each(|node| node.free(c));
                    }
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no two that exclude each other believe", |model: &Self, state| {
                !model.once.first(0, model.overlaps(|c| state.clients[c].believes(state.now)))
            }),
            Property::sometimes("one holder after the other", |model: &Self, state: &State<C>| {
                let over = state.clients[0].phase == Phase::Over;
                model.once.first(3, over && state.believers() > 0)
            }),
        ];
        if self.renewals > 0 {
            properties.push(Property::sometimes(
                "a lease outlives its first end",
                |model: &Self, state: &State<C>| {
                    model.once.first(2, state.clients.iter().any(|c| c.was_renewed(state.now)))
                },
            ));
        }
        // The planted bugs would break this property before exclusion, and exclusion is the
        // property that they must be caught by.
        if self.crashes == 0 || self.quarantine == Quarantine::Strict {
            properties.push(Property::always(
                "a node is believed in by no two of them",
                |model: &Self, state: &State<C>| !model.once.first(1, model.has_shared_node(state)),
            ));
        }
        if self.delay > 0 {
            properties.extend(self.takeovers());
        }
        properties
    }
}

impl<const C: usize> LeaseModel<C> {
    /// What a takeover delay promises, and no more: a lost lease is free when the delay has passed, and
    /// a released one at once.
    fn takeovers(&self) -> [Property<Self>; 3] {
        [
            Property::always("nobody takes over too soon", |model: &Self, state: &State<C>| {
                !model.once.first(4, model.takes_over(state, |at| state.now < at))
            }),
            Property::sometimes("what is lost is taken over", |model: &Self, state: &State<C>| {
                model.once.first(5, model.takes_over(state, |at| state.now == at))
            }),
            Property::sometimes("what is released is free", |model: &Self, state: &State<C>| {
                // Before the first lease can be lost.
                let over = state.clients.iter().any(|client| client.phase == Phase::Over);
                model.once.first(6, state.now < TTL && over && state.believers() > 0)
            }),
        ]
    }

    /// Whether the node would say yes now. Where it would not, serving changes nothing.
    fn may_say_yes(&self, state: &State<C>, serve: Action) -> bool {
        let Action::Serve(c, n, k) = serve else { return false };
        let node = &state.nodes[n];
        let (held, free) = (node.is_held_by(c, self.claims[c]), node.admits(c, &self.claims));
        match k {
            0 => node.may_grant(c, &self.claims, self.rule),
            _ => held || free && self.regrants,
        }
    }

    /// Whether the nodes may be told to release what a client that has ended still holds.
    fn may_free(&self, client: &Client, now: u8) -> bool {
        let at = client.takeover_at(self.delay);
        self.rule == Rule::ReleasesLost || at.is_none_or(|at| at <= now)
    }

    fn is_alike(&self, c: usize, d: usize) -> bool {
        (self.claims[c], self.ttls[c]) == (self.claims[d], self.ttls[d])
    }

    fn asks(&self, client: usize) -> Asks<'_> {
        let (kept, quarantine, rule) = (self.kept(client), self.quarantine, self.rule);
        Asks { client, claims: &self.claims, kept, quarantine, rule }
    }

    /// Whether this is true of two clients that exclude each other.
    fn overlaps(&self, holds: impl Fn(usize) -> bool) -> bool {
        let pair = |c: usize, d: usize| holds(c) && holds(d);
        (0..C).any(|c| (0..c).any(|d| self.claims[c].excludes(self.claims[d]) && pair(c, d)))
    }

    /// Whether a client has lost what another one, which excludes it, holds, where `when` is true of
    /// the tick from which others may hold it.
    fn takes_over(&self, state: &State<C>, when: impl Fn(u8) -> bool) -> bool {
        let lost = |c: usize| state.clients[c].takeover_at(self.delay).is_some_and(&when);
        let holds = |c: usize, d: usize| {
            self.claims[c].excludes(self.claims[d]) && state.clients[d].believes(state.now)
        };
        (0..C).any(|c| lost(c) && (0..C).any(|d| c != d && holds(c, d)))
    }

    fn has_shared_node(&self, state: &State<C>) -> bool {
        let counts = |c: usize, n: usize| state.clients[c].held_until(n) > at(state.now);
        (0..N).any(|n| self.overlaps(|c| counts(c, n)))
    }
}

impl<const C: usize> State<C> {
    fn believers(&self) -> usize {
        self.clients.iter().filter(|client| client.believes(self.now)).count()
    }
}
