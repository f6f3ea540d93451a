//! Fencing tokens (docs/PROTOCOL.md, Tokens): clients propose them, nodes accept what is above
//! their marks.
//!
//! Any name may become free at any moment (expiry, release and deletion are one action here), every
//! request and every answer may be late or lost, a client may give up at any moment, and a client
//! may propose any number. An argument that rests on leases or clocks would therefore fail here.
//! Where a search checks the order of *holds*, windows are right instead ([`Windows`]).

mod action;
mod client;
mod decision;
mod frugal;
mod model;
mod orders;
mod repair;
mod rule;
mod server;
mod wire;

use stateright::{Model, Property};

use crate::claim::MOST;

pub use action::Action;
use client::{Client, Phase, World};
pub use model::TokenModel;
use model::{ONE_ROUND, RAISED};
use repair::Repair;
pub use rule::{Form, Loss, Rule, Windows};
use server::Server;
use wire::Way;
pub use wire::What;

/// The state of all nodes, all clients and the repair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const N: usize, const K: usize> {
    nodes: [Server; N],
    clients: [Client<N>; K],
    repair: Repair<N>,
    nudged: u8,
    copied: u8,
    handoffs: u8,
}

impl<const N: usize, const K: usize> Model for TokenModel<N, K> {
    type State = State<N, K>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let start = |marks: &[u8; N]| State {
            nodes: marks.map(Server::new),
            clients: std::array::from_fn(|_| Client::new()),
            repair: Repair::new(),
            nudged: 0,
            copied: 0,
            handoffs: 0,
        };
        self.marks.iter().map(start).collect()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        // A client that must propose another token does so before any other step.
        for (c, client) in state.clients.iter().enumerate() {
            if let Some(mark) = client.above {
                actions.extend(self.proposals(mark).map(|token| Action::Propose(c, token)));
                return;
            }
        }
        match self.frugal {
            true => self.few_actions(state, actions),
            false => self.many_actions(state, actions),
        }
        self.other_actions(state, actions);
        if self.loss != Loss::Never {
            state.repair.actions(self.loss, &state.nodes, actions);
        }
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        let mut next = state.clone();
        let world =
            World { model: self, returned: state.returned(), incarnations: state.incarnations() };
        let State { nodes, clients, repair, nudged, copied, handoffs: hands } = &mut next;
        match action {
            Action::Start(c, token) => clients[c].start(token, &world),
            Action::Begin(c, n, token) => {
                clients[c].start(token, &world);
                clients[c].serve(&mut nodes[n], (c, n), What::Name, self);
                if self.receives_at_once(What::Name) {
                    clients[c].receive(n, What::Name, &world);
                }
            }
            Action::Serve(c, n, what) => {
                clients[c].serve(&mut nodes[n], (c, n), what, self);
                if self.receives_at_once(what) {
                    clients[c].receive(n, what, &world);
                }
            }
            Action::Receive(c, n, what) => clients[c].receive(n, what, &world),
            Action::NoAnswer(c, n, what) => {
                clients[c].no_answer(n, what, &world);
                if self.frugal && clients[c].above.is_none() {
                    return None;
                }
            }
            Action::Propose(c, token) => clients[c].propose(token, &world),
            Action::Late(c) => clients[c].grow_late(),
            Action::Close(c) => clients[c].close(&world),
            Action::Expire(n, key, c) => nodes[n].holders[key] &= !(1 << c),
            Action::Again(c, n) => {
                *copied += 1;
                let _unheard = nodes[n].acquire(c, clients[c].first, self.rule, &self.claims);
            }
            Action::Nudge(n, mark) => {
                *nudged += 1;
                nodes[n].marks[0] = mark;
            }
            Action::HandOff(c, n, token) => {
                *hands += 1;
                if clients[c].phase == Phase::Idle {
                    clients[c].start(token, &world);
                }
                clients[c].handoff = nodes[n].hand_off(c, self.block, self.rule);
            }
            Action::ReceiveHandoff(c) => clients[c].receive_handoff(&world),
            Action::Lose => repair.lose(self.loss, nodes),
            Action::Show(n) => repair.show(n, self.loss, nodes),
            Action::Admit => repair.admit(nodes),
        }
        if self.frugal {
            self.tidy(&mut next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.all_properties()
    }
}

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// All actions that clients and nodes may take now; [`Self::few_actions`] leaves out those that
    /// cannot matter.
    fn many_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                if self.is_next(state, c) {
                    actions.extend(self.proposals(0).map(|token| Action::Start(c, token)));
                }
                continue;
            }
            if matches!(client.phase, Phase::Open | Phase::Decided) {
                actions.push(Action::Close(c));
            }
            for (n, what, way) in client.messages() {
                match way {
                    Way::Answered(_) => actions.push(Action::Receive(c, n, what)),
                    _ => actions.push(Action::Serve(c, n, what)),
                }
                if way == Way::Asked && client.phase == Phase::Open {
                    actions.push(Action::NoAnswer(c, n, what));
                }
            }
        }
    }

    /// The actions on names and marks.
    fn other_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (n, node) in state.nodes.iter().enumerate() {
            if state.nudged < self.nudges {
                actions.extend((node.marks[0] + 1..=self.top).map(|mark| Action::Nudge(n, mark)));
            }
            if !node.is_held() {
                let again = |(c, client): (usize, &Client<N>)| {
                    (state.copied < self.copies && client.was_served(n))
                        .then_some(Action::Again(c, n))
                };
                actions.extend(state.clients.iter().enumerate().filter_map(again));
            }
            for (key, c) in (0..MOST).flat_map(|key| (0..K).map(move |c| (key, c))) {
                if node.holders[key] & (1 << c) == 0 {
                    continue;
                }
                let holder = &state.clients[c];
                if self.may_go(holder, n) {
                    actions.push(Action::Expire(n, key, c));
                }
                if self.handoff && holder.has_ended() && node.marks[0] != 0 {
                    self.handoffs(state, n, actions);
                }
            }
        }
        let handed = |c: &usize| state.clients[*c].handoff.is_some();
        actions.extend((0..K).filter(handed).map(Action::ReceiveHandoff));
        if self.windows == Windows::HomeFirst {
            let may = |c: &usize| state.clients[*c].may_be_late();
            actions.extend((0..K).filter(may).map(Action::Late));
        }
    }

    /// The handoffs that a release at node `n` may make.
    fn handoffs(&self, state: &State<N, K>, n: usize, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                // The acquisition starts here: the client has been refused and waits.
                actions.extend(self.proposals(0).map(|token| Action::HandOff(c, n, token)));
                break;
            }
            if client.phase == Phase::Open && !client.was_served(n) {
                actions.push(Action::HandOff(c, n, client.first));
            }
        }
    }

    /// Whether all clients with smaller numbers and the same claim have started. Those are
    /// interchangeable, so they start in the order of their numbers.
    fn is_next(&self, state: &State<N, K>, c: usize) -> bool {
        let waits = |d: usize| state.clients[d].phase == Phase::Idle;
        !(0..c).any(|d| self.claims[d] == self.claims[c] && waits(d))
    }

    /// Whether the tokens of two acquisitions must differ, and be in order.
    fn share_mark(&self, c: usize, d: usize) -> bool {
        self.claims[c].shares_mark(self.claims[d])
    }

    /// Whether no node may hold the name for both acquisitions.
    fn exclude(&self, c: usize, d: usize) -> bool {
        self.claims[c].excludes(self.claims[d])
    }

    /// Whether the name may become free at a node although its holder has not released it there.
    fn may_go(&self, holder: &Client<N>, n: usize) -> bool {
        match self.windows {
            Windows::Unknown => true,
            Windows::Right => holder.has_ended(),
            Windows::HomeFirst => holder.has_ended() || n == 0 && holder.is_late(),
        }
    }
}

impl<const N: usize, const K: usize> State<N, K> {
    /// The acquisitions that have returned, as bits.
    fn returned(&self) -> u8 {
        let returned = |c: &usize| matches!(self.clients[*c].phase, Phase::Returned(_));
        (0..K).filter(returned).fold(0, |set, c| set | 1 << c)
    }

    fn incarnations(&self) -> [u8; N] {
        self.nodes.each_ref().map(|node| node.incarnation)
    }
}
