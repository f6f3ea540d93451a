//! Members of a cluster: who votes for which list, how nodes come back, how the list changes
//! (PROTOCOL.md MEM1 to MEM6).
//!
//! Servers that restart empty at any moment, clients of several lists, an operator who changes the
//! list node by node. The question: do two acquisitions have majorities at the same time? The
//! decisions are the library's functions.
//!
//! There is no clock. A vote may end at any time. What waits for the longest lease is over as soon
//! as every vote has ended that was alive when the wait began, for none of them lives longer: each
//! order of events that real durations allow is an order here. Likewise a note counts as written
//! with the right time; [`note`] searches what clocks do.

mod act;
pub mod note;
mod operator;
mod rule;
mod scenario;
mod state;
mod view;

pub use rule::Rule;
pub use scenario::Scenario;
pub use state::State;

use stateright::{Model, Property};

use crate::search::Once;
use state::CLIENTS;

/// The model that is searched, with `N` nodes.
#[derive(Debug)]
pub struct MembersModel<const N: usize> {
    scenario: Scenario<N>,
    once: Once,
}

impl<const N: usize> MembersModel<N> {
    /// A model of this scenario.
    pub fn new(scenario: Scenario<N>) -> Self {
        Self { scenario, once: Once::default() }
    }
}

/// One step of the world: clients, nodes and lists by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node votes for a client of a list: an acquisition, a renewal, or a top-up.
    Vote {
        /// Which client.
        client: usize,
        /// Its list.
        list: u8,
        /// Which node.
        node: usize,
    },
    /// A vote ends.
    Lapse(usize, usize),
    /// A server restarts.
    Restart(usize),
    /// A server is replaced by a clone of another one, which keeps its run identity.
    Clone {
        /// Which node.
        node: usize,
        /// The other one.
        of: usize,
    },
    /// A client of a list writes a note on a node.
    Note(usize, u8),
    /// A client of a list takes over the note on a node.
    TakeOver(usize, u8),
    /// A client of a list admits a node.
    Admit(usize, u8),
    /// A client of a list decides to admit a node.
    Decide(usize, u8),
    /// A decision is carried out.
    Carry,
    /// A decision finds another note.
    Drop,
    /// The operator writes the present phase to a node.
    Write(usize),
    /// The operator sees that all that must have confirmed the present phase.
    Confirm,
    /// The operator begins the next phase.
    Begin,
    /// In the middle of a change, the operator begins the phase that undoes it.
    GoBack,
}

impl<const N: usize> Model for MembersModel<N> {
    type State = State<N>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![State::begin(&self.scenario)]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        act::clients(&self.scenario, state, actions);
        act::faults(&self.scenario, state, actions);
        act::entries(&self.scenario, state, actions);
        operator::actions(&self.scenario, state, actions);
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        if let Action::Admit(_, list) = action {
            let founds = view::founds(&self.scenario, state, list);
            self.once.see(if founds { FOUNDED } else { BACK_IN });
        }
        Some(act::apply(&self.scenario, state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("at most one holder", |model: &Self, state: &State<N>| {
                let holders = (0..CLIENTS).filter(|c| state.holds(*c, &model.scenario)).count();
                !model.once.first(0, holders > 1)
            }),
            Property::sometimes("somebody holds", |model: &Self, state: &State<N>| {
                model.once.first(1, state.holds(0, &model.scenario))
            }),
        ];
        if self.scenario.path.len() > 1 {
            properties.push(Property::sometimes(
                "a change is done",
                |model: &Self, state: &State<N>| {
                    let arrived = usize::from(state.operator.at) + 1 == model.scenario.path.len();
                    let holds = state.clients[0].list == model.scenario.path.last().copied();
                    model.once.first(2, arrived && holds && state.holds(0, &model.scenario))
                },
            ));
        }
        if self.scenario.restarts > 0 {
            properties.push(Property::sometimes("a node comes back in", |model: &Self, _| {
                model.once.seen(BACK_IN)
            }));
        }
        if self.scenario.restarts > 1 {
            properties.push(Property::sometimes("a cluster is founded", |model: &Self, _| {
                model.once.seen(FOUNDED)
            }));
        }
        properties
    }
}

const BACK_IN: u32 = 3;
const FOUNDED: u32 = 4;
