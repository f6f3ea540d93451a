//! A server whose memory goes back within one run, and a locker that has seen it superseded (PROTOCOL.md
//! ADM10).
//!
//! Other clients write fresh incarnations, an operator brings back a memory that was saved, or none. A
//! locker reads the record on two connections, whose answers come late. The questions: does it ever rely
//! on an incarnation that it has seen superseded, and does it ever revoke one of a memory that is whole?

use quorumlock_protocol::admission::SeenIds;
use stateright::{Model, Property};

use crate::search::Once;

/// What the locker does about an incarnation that it has seen superseded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the library: the script revokes it if the record has it at that moment.
    Library,
    /// Planted: the script compares nothing.
    RevokesUncompared,
    /// Planted: what is known when the answer comes was superseded by it.
    OrdersByAnswer,
    /// Planted: nothing is remembered.
    Forgets,
}

/// The model that is searched.
#[derive(Debug)]
pub struct MemoryModel {
    rule: Rule,
    once: Once,
}

/// The server, and the locker's two connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The incarnation in the record; 0: none.
    record: u8,
    /// The memory lacks what was granted under a later incarnation.
    behind: bool,
    saved: Option<u8>,
    /// How many incarnations were written, and how often the memory went back.
    written: u8,
    restored: u8,
    seen: SeenIds<u8>,
    /// The incarnations that the locker has read, and those of them that a read which was sent later did
    /// not show, as bits.
    heard: u8,
    gone: u8,
    lanes: [Lane; 2],
    revoked: bool,
    revoked_whole: bool,
    relied_on_superseded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    Idle,
    /// The read is on its way. `heard`: what the locker had read when it was sent.
    Asked {
        before: Vec<u8>,
        heard: u8,
    },
    /// The answer is on its way.
    Answered {
        before: Vec<u8>,
        heard: u8,
        shown: u8,
    },
    /// The script that revokes is on its way.
    Revokes(u8),
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another client admits the server, or renews its incarnation.
    Write,
    /// The operator saves the memory.
    Save,
    /// The operator brings the saved memory back.
    Restore,
    /// The memory is gone.
    Lose,
    /// The locker asks for the record.
    Ask(usize),
    /// The server answers.
    Answer(usize),
    /// The locker hears the answer.
    Hear(usize),
    /// The server runs the script that revokes.
    Revoke(usize),
}

const INCARNATIONS: u8 = 3;
const RESTORES: u8 = 2;

impl MemoryModel {
    /// A model with this rule.
    pub fn new(rule: Rule) -> Self {
        Self { rule, once: Once::default() }
    }

    fn hear(&self, state: &mut State, lane: usize) -> Option<()> {
        let Lane::Answered { before, heard, shown } = state.lanes[lane].clone() else {
            return None;
        };
        let ids = if shown == 0 { vec![] } else { vec![shown] };
        match self.rule {
            Rule::Forgets => {}
            Rule::OrdersByAnswer => state.seen.learn(&state.seen.current(), &ids),
            Rule::Library | Rule::RevokesUncompared => state.seen.learn(&before, &ids),
        }
        let bit = if shown == 0 { 0 } else { 1 << shown };
        state.gone |= heard & !bit;
        state.heard |= bit;
        state.lanes[lane] = match state.seen.superseded_among(&ids)[..] {
            [id] => Lane::Revokes(id),
            _ => {
                state.relied_on_superseded |= state.gone & bit != 0;
                Lane::Idle
            }
        };
        Some(())
    }

    fn revoke(&self, state: &mut State, lane: usize) -> Option<()> {
        let Lane::Revokes(id) = state.lanes[lane] else { return None };
        if state.record == id || self.rule == Rule::RevokesUncompared {
            state.revoked = true;
            state.revoked_whole |= state.record != 0 && !state.behind;
            (state.record, state.behind) = (0, false);
        }
        state.lanes[lane] = Lane::Idle;
        Some(())
    }
}

impl Model for MemoryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            record: 1,
            behind: false,
            saved: None,
            written: 1,
            restored: 0,
            seen: SeenIds::default(),
            heard: 0,
            gone: 0,
            lanes: [Lane::Idle, Lane::Idle],
            revoked: false,
            revoked_whole: false,
            relied_on_superseded: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        use Action::{Answer, Ask, Hear, Lose, Restore, Revoke, Save, Write};
        actions.extend([Write, Save, Restore, Lose]);
        for lane in 0..2 {
            actions.extend([Ask(lane), Answer(lane), Hear(lane), Revoke(lane)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            // A memory that went back, and that another client gives a fresh incarnation, is not told
            // from one that is whole: SAFETY.md A3 says so.
            Action::Write if state.written < INCARNATIONS && !state.behind => {
                next.written += 1;
                next.record = next.written;
            }
            Action::Save if state.record != 0 && !state.behind => next.saved = Some(state.record),
            // Nor is one of the same incarnation.
            Action::Restore if state.restored < RESTORES && state.saved? != state.record => {
                next.restored += 1;
                next.record = state.saved?;
                next.behind = true;
            }
            Action::Lose => (next.record, next.behind) = (0, false),
            Action::Ask(lane) if state.lanes[lane] == Lane::Idle => {
                next.lanes[lane] = Lane::Asked { before: state.seen.current(), heard: state.heard };
            }
            Action::Answer(lane) => {
                let Lane::Asked { before, heard } = state.lanes[lane].clone() else { return None };
                next.lanes[lane] = Lane::Answered { before, heard, shown: state.record };
            }
            Action::Hear(lane) => self.hear(&mut next, lane)?,
            Action::Revoke(lane) => self.revoke(&mut next, lane)?,
            _ => return None,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody relies on what was superseded", |model: &Self, state| {
                let State { relied_on_superseded, .. } = state;
                !model.once.first(0, *relied_on_superseded)
            }),
            Property::always("a memory that is whole is not revoked", |model: &Self, state| {
                let State { revoked_whole, .. } = state;
                !model.once.first(1, *revoked_whole)
            }),
            Property::sometimes("a memory that went back is revoked", |model: &Self, state| {
                let State { revoked, revoked_whole, .. } = state;
                model.once.first(2, *revoked && !revoked_whole)
            }),
        ]
    }
}
