//! A release that hands the name off to a waiter, which polls meanwhile (docs/PROTOCOL.md, Handoff,
//! W5).
//!
//! One server, one call that waits, and a rival. Each poll has a fresh nonce, and names the earlier
//! nonces of its call to which the name may be handed off. If one of them holds the name, the
//! script that serves the poll takes the handoff up: it answers with that nonce and another token.
//! Requests come late, or are not answered; messages get lost with the subscription. The questions:
//! do both clients ever believe in the lock at once, are tokens in the order of holds, is each
//! handoff used?

use quorumlock_protocol::FencingToken;
use stateright::{Model, Property};

use self::state::{MOST, Phase, RIVAL, Subscription, TTL, heads, members};
use crate::search::Once;

mod state;

pub use state::{Rule, State};

/// The model that is searched.
#[derive(Debug)]
pub struct HandoffModel {
    rule: Rule,
    /// Both nonces of a call can hold the name at once, as those of a reader. The rival writes.
    shared: bool,
    polls: usize,
    last_tick: u8,
    /// How often each of these happens at most: the connection breaks, the subscription breaks, the
    /// rival acquires the name again.
    most: u8,
    once: Once,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The waiter polls.
    Poll,
    /// The server carries out this poll.
    Serve(usize),
    /// The waiter hears the answer.
    Hear,
    /// The waiter's connection breaks. It hears no answer to its last poll.
    Break,
    /// The waiter hears the message for this nonce.
    HearMessage(usize),
    /// The waiter's subscription ends, and what is on its way is lost.
    Interrupt,
    /// The server has the waiter's new subscription.
    Subscribe,
    /// The waiter knows that it is subscribed.
    Subscribed,
    /// The waiter gives up.
    GiveUp,
    /// The waiter releases the lock that it holds.
    Unlock,
    /// The server carries out the release of this nonce, and then serves this head of the queue.
    Release(usize, Option<usize>),
    /// The rival takes the free name.
    RivalAcquires,
    /// The rival releases the name, and the server serves this head of the queue.
    RivalReleases(Option<usize>),
}

impl HandoffModel {
    /// A model with this rule: three polls, one break of each kind.
    pub fn new(rule: Rule) -> Self {
        let last_tick = TTL + 1;
        Self { rule, shared: false, polls: 3, last_tick, most: 1, once: Once::default() }
    }

    /// The waiter is a reader.
    #[must_use]
    pub fn reading(self) -> Self {
        Self { shared: true, ..self }
    }

    /// One poll more.
    #[must_use]
    pub fn longer(self) -> Self {
        Self { polls: self.polls + 1, ..self }
    }

    /// One tick more, two breaks of each kind, and two more acquisitions by the rival.
    #[must_use]
    pub fn twice(self) -> Self {
        Self { last_tick: self.last_tick + 1, most: 2, ..self }
    }
}

impl Model for HandoffModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let waiter = &state.waiter;
        let [breaks, interruptions, acquisitions] = state.counts.map(|count| count < self.most);
        let waits = waiter.phase == Phase::Waiting;
        let awaits = waiter.awaits.is_some();
        let up = waiter.subscription == Subscription::Up;
        let single = [
            (Action::Tick, state.now < self.last_tick),
            (Action::Poll, waits && !awaits && waiter.polls < self.polls),
            (Action::Hear, state.answer.is_some()),
            (Action::Break, waits && awaits && breaks),
            (Action::Interrupt, up && interruptions),
            (Action::Subscribe, waiter.subscription == Subscription::Down),
            (Action::Subscribed, waiter.subscription == Subscription::AtServer),
            (Action::GiveUp, waits && waiter.polls > 0),
            (Action::Unlock, matches!(waiter.phase, Phase::Holding { .. })),
            (Action::RivalAcquires, state.is_free() && acquisitions),
        ];
        actions.extend(single.into_iter().filter(|(_, may)| *may).map(|(action, _)| action));
        actions.extend(members(state.requests).map(Action::Serve));
        let told = |nonce: &usize| up && state.messages[*nonce] != FencingToken::NONE;
        actions.extend((0..MOST).filter(told).map(Action::HearMessage));
        for nonce in members(state.releases) {
            let next = heads(state.queue & !(1 << nonce));
            actions.extend(next.map(|head| Action::Release(nonce, head)));
        }
        if state.ends[RIVAL] > 0 {
            actions.extend(heads(state.queue).map(Action::RivalReleases));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let (mut next, rule) = (state.clone(), self.rule);
        let counted = [Action::Break, Action::Interrupt, Action::RivalAcquires];
        let at = counted.iter().position(|one| *one == action);
        at.into_iter().for_each(|at| next.counts[at] += 1);
        match action {
            Action::Tick => next.tick(),
            Action::Poll => next.poll(rule),
            Action::Serve(poll) => next.serve(poll, rule, self.shared),
            Action::Hear => next.hear(rule, &self.once),
            Action::Break => next.break_off(rule),
            Action::HearMessage(nonce) => next.hear_message(nonce, rule, &self.once),
            Action::Interrupt => next.interrupt(rule),
            Action::Subscribe => next.waiter.subscription = Subscription::AtServer,
            Action::Subscribed => next.subscribed(rule),
            Action::GiveUp => next.give_up(rule),
            Action::Unlock => next.unlock(),
            Action::Release(nonce, head) => {
                next.releases &= !(1 << nonce);
                next.queue &= !(1 << nonce);
                next.drop(nonce);
                next.hand_off(head, self.shared);
            }
            Action::RivalAcquires => next.rival_acquires(),
            Action::RivalReleases(head) => {
                next.rival = None;
                next.drop(RIVAL);
                next.hand_off(head, self.shared);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let seen = Property::<Self>::sometimes;
        let mut properties = vec![
            Property::always("one believes", |model: &Self, state: &State| {
                let held = matches!(state.waiter.phase, Phase::Holding { .. });
                !model.once.first(0, held && state.rival.is_some())
            }),
            Property::always("tokens are in the order of holds", |model: &Self, state: &State| {
                !model.once.first(1, state.disordered)
            }),
            Property::always("no poll waits for its own call", |model: &Self, state: &State| {
                !model.once.first(2, state.waits_for_itself())
            }),
            Property::always("a call leaves nothing behind", |model: &Self, state: &State| {
                !model.once.first(3, state.has_leftovers())
            }),
            seen("a lost message is made up for", |model: &Self, _| model.once.seen(4)),
            seen("a message comes after the answer", |model: &Self, _| model.once.seen(5)),
            seen("a handoff is taken up too late", |model: &Self, _| model.once.seen(6)),
            seen("the larger one of two tokens", |model: &Self, _| model.once.seen(7)),
        ];
        if self.shared {
            properties.push(seen("two nonces hold", |model: &Self, state: &State| {
                let both = members(state.waiter.open()).filter(|n| state.ends[*n] > 0).count() > 1;
                model.once.first(8, both)
            }));
        }
        properties
    }
}
