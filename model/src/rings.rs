//! Sets of names that clients take one after the other, holding what they have (docs/PROTOCOL.md,
//! Several names): can all of them wait for ever?
//!
//! Each of three clients wants two of three names, so that each name is wanted by two of them. Beside
//! them, clients take all names of a set in one step, and hold nothing while they wait.

use stateright::{Model, Property};

use crate::search::Once;

/// The order in which a client takes the names of its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The library's rule: all clients take names in the same order.
    Sorted,
    /// Planted, M25: each client takes names in the order in which it was given them.
    AsGiven,
}

/// The model that is searched.
#[derive(Debug)]
pub struct RingModel {
    /// The order of names.
    pub order: Order,
    /// Reports each property once.
    pub once: Once,
}

const CLIENTS: usize = 3;

/// The names of each client's set, as given.
const SETS: [[u8; 2]; CLIENTS] = [[0, 1], [1, 2], [2, 0]];

/// The state of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// It holds nothing, and attempts to take its set in one step.
    InOneStep,
    /// It holds this many of its names, the first ones.
    OneByOne(usize),
    /// It has held its set and released it.
    Done,
}

/// One step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It takes all names.
    TakeAll(usize),
    /// It begins to take one name after the other.
    GoOneByOne(usize),
    /// It takes the next name.
    TakeNext(usize),
    /// It releases all names.
    Release(usize),
}

impl RingModel {
    /// A model of this order.
    pub fn new(order: Order) -> Self {
        Self { order, once: Once::default() }
    }

    fn names(&self, client: usize) -> [u8; 2] {
        let mut names = SETS[client];
        if self.order == Order::Sorted {
            names.sort_unstable();
        }
        names
    }

    fn holds(&self, client: usize, state: Client) -> impl Iterator<Item = u8> {
        let count = if let Client::OneByOne(count) = state { count } else { 0 };
        self.names(client).into_iter().take(count)
    }

    fn is_free(&self, name: u8, state: &[Client; CLIENTS]) -> bool {
        !(0..CLIENTS).any(|client| self.holds(client, state[client]).any(|held| held == name))
    }
}

impl Model for RingModel {
    type State = [Client; CLIENTS];
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![[Client::InOneStep; CLIENTS]]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        for (c, client) in state.iter().enumerate() {
            let names = self.names(c);
            match client {
                Client::InOneStep => {
                    actions.push(Action::GoOneByOne(c));
                    if names.iter().all(|name| self.is_free(*name, state)) {
                        actions.push(Action::TakeAll(c));
                    }
                }
                Client::OneByOne(held) => match names.get(*held) {
                    None => actions.push(Action::Release(c)),
                    Some(next) if self.is_free(*next, state) => actions.push(Action::TakeNext(c)),
                    Some(_) => {}
                },
                Client::Done => {}
            }
        }
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        let mut next = *state;
        match action {
            Action::TakeAll(c) => next[c] = Client::OneByOne(SETS[c].len()),
            Action::GoOneByOne(c) => next[c] = Client::OneByOne(0),
            Action::TakeNext(c) => {
                if let Client::OneByOne(held) = &mut next[c] {
                    *held += 1;
                }
            }
            Action::Release(c) => next[c] = Client::Done,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("somebody can go on", |model: &Self, state: &Self::State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let stuck = actions.is_empty() && state.iter().any(|one| *one != Client::Done);
                !model.once.first(0, stuck)
            }),
            Property::sometimes("all have held their sets", |model: &Self, state: &Self::State| {
                model.once.first(1, state.iter().all(|one| *one == Client::Done))
            }),
        ]
    }
}
