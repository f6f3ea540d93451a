//! A master with a replica, whose memory is proven (PROTOCOL.md ADM7): leases across a promotion.
//!
//! Two clients ask either server. A replica copies the lock at any moment, and is promoted at any
//! moment; the old master dies then, or lives on. The promoted server votes once it was watched for the
//! longest lease. The question: do two clients ever believe in the lock at once?

use stateright::{Model, Property};

use crate::search::Once;

/// What a grant and a promoted server need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Grants count only once the replica has acknowledged them.
    pub grants_await: bool,
    /// Renewals, too.
    pub renewals_await: bool,
    /// How many ticks a promoted server is watched before it votes.
    pub watched: u8,
    /// The old master lives on after the promotion, and takes requests.
    pub lives_on: bool,
}

/// The model that is searched.
#[derive(Debug)]
pub struct PromotionModel {
    rule: Rule,
    once: Once,
}

/// Both servers and both clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// The lock at the old master and at the other server: its holder and its end.
    locks: [Option<(usize, u8)>; 2],
    promoted: Option<u8>,
    clients: [Client; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    /// It believes in the lock before this tick.
    until: u8,
    /// The end of a lease that the replica has not acknowledged yet.
    unacknowledged: Option<u8>,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The client asks the server for the lock, or renews it there.
    Ask(usize, usize),
    /// The replica copies the lock, and acknowledges it.
    Copy,
    /// The replica becomes the master.
    Promote,
}

/// The longest lease, which all have, in ticks.
pub const LEASE: u8 = 2;
const LAST_TICK: u8 = 7;
const OLD: usize = 0;
const NEW: usize = 1;

impl PromotionModel {
    /// A model with this rule.
    pub fn new(rule: Rule) -> Self {
        Self { rule, once: Once::default() }
    }

    fn ask(&self, state: &mut State, client: usize, server: usize) -> Option<()> {
        let votes = match (server, state.promoted) {
            (OLD, None) => true,
            (OLD, Some(_)) => self.rule.lives_on,
            (_, promoted) => state.now >= promoted? + self.rule.watched,
        };
        let now = state.now;
        let held = state.locks[server].filter(|(_, end)| now < *end);
        if !votes || held.is_some_and(|(holder, _)| holder != client) {
            return None;
        }
        let end = now + LEASE;
        state.locks[server] = Some((client, end));
        let awaits = if held.is_some() { self.rule.renewals_await } else { self.rule.grants_await };
        // The promoted server has no replica, and its operator says so.
        match awaits && server == OLD {
            true => state.clients[client].unacknowledged = Some(end),
            false => state.clients[client].until = end,
        }
        Some(())
    }
}

impl State {
    fn believes(&self, client: usize) -> bool {
        self.now < self.clients[client].until
    }
}

impl Model for PromotionModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = [Client::default(); 2];
        vec![State { now: 0, locks: [None; 2], promoted: None, clients }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Tick, Action::Copy, Action::Promote]);
        for client in 0..2 {
            actions.extend([Action::Ask(client, OLD), Action::Ask(client, NEW)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick if state.now < LAST_TICK => next.now += 1,
            Action::Ask(client, server) => self.ask(&mut next, client, server)?,
            Action::Copy if state.promoted.is_none() => {
                next.locks[NEW] = state.locks[OLD];
                for client in &mut next.clients {
                    client.until = client.unacknowledged.take().unwrap_or(client.until);
                }
            }
            Action::Promote if state.promoted.is_none() => next.promoted = Some(state.now),
            Action::Tick | Action::Copy | Action::Promote => return None,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one believes", |model: &Self, state: &State| {
                !model.once.first(0, state.believes(0) && state.believes(1))
            }),
            Property::sometimes("a client holds at the promoted server", |model: &Self, state| {
                let State { now, locks, clients, .. } = state;
                let there = locks[NEW].is_some_and(|(holder, end)| {
                    state.promoted.is_some() && now < &end && clients[holder].until == end
                });
                model.once.first(1, there)
            }),
        ]
    }
}
