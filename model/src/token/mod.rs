//! Fencing tokens, without any clock (safety.md 2a, Theorem F).
//!
//! Three nodes. Any key may go at any moment (expiry, release, deletion: all the same here), every
//! request and every answer may be late or lost, a client may give up at any moment. So the search
//! sees the tokens exactly where a lease argument would have failed.

mod client;
mod decision;
mod frugal;
mod server;
mod shortcut;

use stateright::{Model, Property};

use crate::search::Once;
use client::{Client, Phase, Wire};
use server::{Repair, Server};

/// How many nodes.
pub const N: usize = 3;

/// How many of them are a majority.
pub const Q: usize = quorumlock_core::quorum_of(N);

/// What [`Once`] is told of wins.
const SECOND_ROUND: u32 = 3;
const ONE_ROUND: u32 = 4;

/// Which rule the clients and the nodes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's own `Round`.
    Library,
    /// The copy of it into which bugs are planted, with none: no equal-set rule, otherwise the same.
    LargestHeld,
    /// Planted, M2: a node that denied us, but whose counter has reached the token, confirms it.
    DenierConfirms,
    /// Planted: the client takes a refused raise for a confirmation.
    RefusalConfirms,
    /// Planted, M3: nodes raise and confirm though the nonce is gone, whatever their counter says.
    RaiseUnheld,
    /// Planted, M13: nodes confirm a token that their counter has reached without them.
    ConfirmUnraised,
    /// Planted, M5: the token is the q-th smallest reply, confirmed by whatever is not below it.
    MedianReply,
}

impl Rule {
    fn confirms_unraised(self) -> bool {
        matches!(self, Self::ConfirmUnraised | Self::RaiseUnheld)
    }
}

/// What becomes of a node that loses its data, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No node does.
    Never,
    /// Planted, M4: it goes on as if nothing had happened.
    Unguarded,
    /// It never counts again.
    Excluded,
    /// It counts again, with the largest counter that a majority of the others show.
    Repaired(Form),
}

/// How the repair deals with acquisitions that count a vote of the node from before its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Planted, M8: not at all.
    Naive,
    /// M8c: the others note the new life in the same step in which they show their counter, and
    /// say so in every answer; clients drop votes of an earlier life.
    Lives,
    /// As the library: the others take a new stamp in the same step, and carry out no request that
    /// is bound to another. All requests of an acquisition are bound when it starts.
    Stamps,
    /// Planted: a raise is bound when it is sent, perhaps after the stamp was verified again.
    StampsWhenSent,
    /// Planted: the others show the largest counter that they granted, not one that was raised.
    StampsOfGrants,
}

impl Form {
    fn binds(self) -> bool {
        matches!(self, Self::Stamps | Self::StampsWhenSent | Self::StampsOfGrants)
    }
}

impl Loss {
    fn form(self) -> Option<Form> {
        match self {
            Self::Repaired(form) => Some(form),
            _ => None,
        }
    }

    fn binds(self) -> bool {
        self.form().is_some_and(Form::binds)
    }
}

/// What is searched; `K` acquisitions.
#[derive(Debug)]
pub struct TokenModel<const K: usize> {
    /// Which rule.
    pub rule: Rule,
    /// What becomes of lost data.
    pub loss: Loss,
    /// The counters before the first acquisition.
    pub counters: Vec<[u8; N]>,
    /// So many times, all in all, counters move for whoever is refused, and nobody is told.
    pub nudges: u8,
    /// So many requests, all in all, are carried out once more; nobody hears the answer.
    pub copies: u8,
    /// Leaves out what cannot matter.
    pub frugal: bool,
    /// Each property speaks once.
    pub once: Once,
}

impl<const K: usize> TokenModel<K> {
    /// From counters of zero, leaving out what cannot matter.
    pub fn new(rule: Rule, loss: Loss) -> Self {
        let (counters, once) = (vec![[0; N]], Once::default());
        Self { rule, loss, counters, nudges: 0, copies: 0, frugal: true, once }
    }

    /// Leaves out nothing; clients also look at a decision late, and are told that no answer will
    /// come.
    pub fn in_full(self) -> Self {
        Self { frugal: false, ..self }
    }

    /// With counters that move for whoever is refused, too.
    pub fn nudged(self, nudges: u8) -> Self {
        Self { nudges, ..self }
    }

    /// With requests that are carried out twice.
    pub fn repeated(self, copies: u8) -> Self {
        Self { copies, ..self }
    }

    /// From these counters.
    pub fn starting_at(self, counters: [u8; N]) -> Self {
        Self { counters: vec![counters], ..self }
    }

    /// From any counters up to `most`.
    pub fn uneven(self, most: u8) -> Self {
        // Sorted: nodes are alike, but for the one that loses its data.
        let least = |a| if self.loss == Loss::Never { a } else { 0 };
        let counters = |a| move |b| (b..=most).map(move |c| [a, b, c]);
        let counters = (0..=most).flat_map(|a| (least(a)..=most).flat_map(counters(a))).collect();
        Self { counters, ..self }
    }
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const K: usize> {
    nodes: [Server; N],
    clients: [Client; K],
    repair: Repair,
    nudged: u8,
    copied: u8,
}

/// One step of the world. Numbers are those of the client and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client asks all nodes for the lock.
    Start(usize),
    /// A node carries out the client's request.
    Serve(usize, usize),
    /// The client hears the node's answer.
    Hear(usize, usize),
    /// The client is told that no answer will come.
    Silence(usize, usize),
    /// The client waits no longer.
    Close(usize),
    /// The node's key goes.
    Expire(usize),
    /// A node grants the client's request again, though it has lost the key.
    Again(usize, usize),
    /// The node's counter moves for somebody who is refused.
    Nudge(usize),
    /// Node 0 loses its data; the nodes are alike, so it may as well be that one.
    Lose,
    /// A node shows its counter to the repair of node 0.
    Show(usize),
    /// Node 0 counts again.
    Admit,
}

impl<const K: usize> Model for TokenModel<K> {
    type State = State<K>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let start = |counters: &[u8; N]| State {
            nodes: counters.map(Server::new),
            clients: std::array::from_fn(|_| Client::new(self.rule)),
            repair: Repair::default(),
            nudged: 0,
            copied: 0,
        };
        self.counters.iter().map(start).collect()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        if self.frugal {
            self.serves(state, actions);
        }
        for (c, client) in state.clients.iter().enumerate() {
            // In order of their numbers: clients are alike.
            let next = c == 0 || state.clients[c - 1].phase != Phase::Idle;
            if !self.frugal && client.phase == Phase::Idle && next {
                actions.push(Action::Start(c));
            }
            if matches!(client.phase, Phase::Open | Phase::Decided) {
                actions.push(Action::Close(c));
            }
            for (n, wire) in client.wires.iter().enumerate() {
                if wire.is_answer() {
                    actions.push(Action::Hear(c, n));
                }
                if !self.frugal && wire.is_request() {
                    actions.push(Action::Serve(c, n));
                }
                let awaited = matches!(wire, Wire::Asked | Wire::Raising(_));
                if !self.frugal && client.phase == Phase::Open && awaited {
                    actions.push(Action::Silence(c, n));
                }
                let free = state.nodes[n].holder.is_none();
                if state.copied < self.copies && free && client.was_served(n) {
                    actions.push(Action::Again(c, n));
                }
            }
        }
        let held = (0..N).filter(|n| state.nodes[*n].holder.is_some());
        actions.extend(held.map(Action::Expire));
        if state.nudged < self.nudges {
            actions.extend((0..N).map(Action::Nudge));
        }
        if self.loss != Loss::Never {
            state.repair.actions(self.loss, &state.nodes, actions);
        }
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        let mut next = state.clone();
        let State { nodes, clients, repair, nudged, copied } = &mut next;
        match action {
            Action::Start(c) => clients[c].start(state.returned(), nodes, self.loss),
            Action::Serve(c, n) => {
                if clients[c].phase == Phase::Idle {
                    clients[c].start(state.returned(), nodes, self.loss);
                }
                clients[c].serve(&mut nodes[n], c, n, self);
                if self.frugal && matches!(clients[c].wires[n], Wire::Raised(_)) {
                    clients[c].hear(n, nodes, self);
                }
            }
            Action::Hear(c, n) => clients[c].hear(n, nodes, self),
            Action::Silence(c, n) => clients[c].silence(n, nodes, self),
            Action::Close(c) => clients[c].close(self),
            Action::Expire(n) => nodes[n].holder = None,
            Action::Again(c, n) => {
                *copied += 1;
                let _unheard = nodes[n].acquire(c, self.rule, self.loss, self.nudges);
            }
            Action::Nudge(n) => {
                *nudged += 1;
                nodes[n].counter += 1;
            }
            Action::Lose => repair.lose(self.loss, nodes),
            Action::Show(n) => repair.show(n, self.loss, self.nudges, nodes),
            Action::Admit => repair.admit(nodes),
        }
        if self.frugal {
            self.tidy(&mut next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("tokens are unique", |model: &Self, state: &State<K>| {
                !model.once.first(0, state.has_twins())
            }),
            Property::always("tokens are in real-time order", |model: &Self, state: &State<K>| {
                !model.once.first(1, state.has_regress())
            }),
            Property::sometimes("all acquisitions win", |model: &Self, state: &State<K>| {
                let won = |client: &Client| matches!(client.phase, Phase::Returned(_));
                model.once.first(2, state.clients.iter().all(won))
            }),
            Property::sometimes("a token needs a second round", |model: &Self, _| {
                model.once.seen(SECOND_ROUND)
            }),
            Property::sometimes("a token needs one round", |model: &Self, _| {
                model.once.seen(ONE_ROUND)
            }),
        ];
        if self.loss.form().is_some() {
            properties.push(Property::sometimes(
                "a repaired node grants",
                |model: &Self, state: &State<K>| {
                    model.once.first(5, state.repair.is_done() && state.nodes[0].holder.is_some())
                },
            ));
        }
        properties
    }
}

impl<const K: usize> State<K> {
    /// The acquisitions that have returned, as bits.
    fn returned(&self) -> u8 {
        let returned = |c: &usize| matches!(self.clients[*c].phase, Phase::Returned(_));
        (0..K).filter(returned).fold(0, |set, c| set | 1 << c)
    }

    fn tokens(&self) -> [Option<u8>; K] {
        self.clients.each_ref().map(|client| match client.phase {
            Phase::Returned(token) => Some(token),
            _ => None,
        })
    }

    fn has_twins(&self) -> bool {
        let tokens = self.tokens();
        (0..K).any(|c| tokens[c].is_some() && tokens[..c].contains(&tokens[c]))
    }

    fn has_regress(&self) -> bool {
        let tokens = self.tokens();
        (0..K).any(|later| {
            let earlier = (0..K).filter(|c| self.clients[later].after & (1 << c) != 0);
            tokens[later].is_some() && earlier.into_iter().any(|c| tokens[c] >= tokens[later])
        })
    }
}
