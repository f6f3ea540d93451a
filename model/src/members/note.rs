//! Notes and wrong clocks (PROTOCOL.md MEM3).
//!
//! One server restarts empty, with any time on its clock, and its clock is set to any time at any
//! moment, right or wrong. Clients write and judge notes by the library's function. The question:
//! is a note ever mature before the longest lease is over since the restart? The clients' clocks
//! are right.

use std::time::Duration;

use quorumlock_protocol::admission::members::{
    CLOCK_BOUND, MemberList, Note, NoteStep, ServerClock, note_age, note_step,
};
use stateright::{Model, Property};

use crate::search::Once;

/// How a note is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the library.
    Library,
    /// Planted: the clocks are not compared when a note is written.
    WrittenUnchecked,
    /// Planted: the clocks are not compared when a note is judged.
    MaturedUnchecked,
    /// Planted: the age leaves out the clock bound.
    LongestLeaseOnly,
    /// Planted: the age leaves out half of the clock bound.
    BoundOnce,
}

/// The model that is searched.
#[derive(Debug)]
pub struct NoteModel {
    rule: Rule,
    list: MemberList,
    once: Once,
}

/// A server since its restart, in ticks of [`CLOCK_BOUND`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The right time; the restart is at 0.
    now: i8,
    /// How far the server's clock is ahead.
    ahead: i8,
    /// The time that the note has.
    note: Option<i8>,
    /// A client judged the note to be mature.
    mature: bool,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time advances by one tick.
    Tick,
    /// The server's clock is set, so far ahead.
    Set(i8),
    /// A client meets the server.
    Meet,
}

/// The longest lease in ticks.
const LONGEST: i8 = 3;
/// The last tick: a note that is written at once is mature before.
const HORIZON: i8 = 10;
/// How far the server's clock is ahead or behind at most.
const WRONG: i8 = 8;

impl NoteModel {
    /// A model with this rule.
    pub fn new(rule: Rule) -> Self {
        Self { rule, list: MemberList::new(["a"]), once: Once::default() }
    }

    fn age(&self) -> Duration {
        // The library adds 10 ms; without them the age is a whole number of ticks.
        let longest = CLOCK_BOUND * LONGEST.unsigned_abs().into() - Duration::from_millis(10);
        let missing = match self.rule {
            Rule::LongestLeaseOnly => 2,
            Rule::BoundOnce => 1,
            _ => 0,
        };
        note_age(longest, 0.0, CLOCK_BOUND) - CLOCK_BOUND * missing
    }

    fn step(&self, state: &State) -> NoteStep {
        let micros = |ticks: i8| i64::from(ticks) * CLOCK_BOUND.as_micros() as i64;
        let unchecked = match state.note {
            None => self.rule == Rule::WrittenUnchecked,
            Some(_) => self.rule == Rule::MaturedUnchecked,
        };
        let server = micros(state.now + state.ahead);
        let client = if unchecked { server } else { micros(state.now) };
        let note = state.note.map(|since| Note {
            label: "a".into(),
            run_identity: "run".into(),
            list: self.list.clone(),
            since: micros(since),
        });
        note_step(
            note.as_ref(),
            "a",
            &self.list,
            false,
            ServerClock { server, client, bound: CLOCK_BOUND },
            self.age(),
        )
    }
}

impl Model for NoteModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let boot = |ahead| State { now: 0, ahead, note: None, mature: false };
        (-WRONG..=WRONG).map(boot).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Meet);
        actions.extend((-WRONG..=WRONG).filter(|ahead| *ahead != state.ahead).map(Action::Set));
        if state.now < HORIZON {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Tick => next.now += 1,
            Action::Set(ahead) => next.ahead = ahead,
            Action::Meet => match self.step(state) {
                NoteStep::Write => next.note = Some(state.now + state.ahead),
                NoteStep::Mature => next.mature = true,
                NoteStep::Wait(_)
                | NoteStep::TakeOver
                | NoteStep::OtherList
                | NoteStep::ClocksDiffer(_) => return None,
            },
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a mature note is old enough", |model: &Self, state: &State| {
                !model.once.first(0, state.mature && state.now < LONGEST)
            }),
            Property::sometimes("a note is mature", |model: &Self, state: &State| {
                model.once.first(1, state.mature)
            }),
            // The bound is not wider than it must be.
            Property::sometimes(
                "a note is mature as early as may be",
                |model: &Self, state: &State| {
                    model.once.first(2, state.mature && state.now == LONGEST)
                },
            ),
        ]
    }
}
