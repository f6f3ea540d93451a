//! A release whose connection breaks and which the client repeats (PROTOCOL.md REL1,
//! docs/decisions/0016).
//!
//! One server, one holder, ticks instead of time. The server may restart without its data, the lock
//! may expire, an operator may delete it, and the connection may break at any time: before or after
//! a release is wholly written, served or answered. The question: is every unlock that returns Ok
//! truthful?

use std::time::Duration;

use quorumlock_protocol::expiry;
use quorumlock_protocol::{Greeting, HeldInterval, Instant, RunIds, Unconfirmed};
use stateright::{Model, Property};

use crate::debug_hashed::DebugHashed;
use crate::search::Once;

/// The length of the lease, in ticks.
const TTL: u8 = 2;

/// The rule by which a repeat that hears "not held" counts as a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's rule.
    Library,
    /// A planted bug: the client does not check for a restart.
    AnyRun,
    /// A planted bug: the client checks for a restart only between the two requests.
    SameRunOnly,
    /// A planted bug: the window must be open when the repeat is sent, not when its answer arrives.
    WindowWhenAsked,
    /// A planted bug: a first request that was only partly written counts as sent.
    PartlyWritten,
    /// A planted bug (REL2): a repeat that frees nothing notifies no waiter.
    SilentRepeat,
}

/// The model that is searched.
#[derive(Debug)]
pub struct ReleaseModel {
    rule: Rule,
    once: Once,
}

impl ReleaseModel {
    /// A model that follows this rule.
    pub fn new(rule: Rule) -> Self {
        Self { rule, once: Once::default() }
    }
}

/// The state of the server, the connection and the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// The number of restarts of the server; it stands for the run id.
    run: u8,
    /// The holder of the name.
    key: Key,
    /// How the client's hold ended at the server.
    ended: Option<End>,
    /// The lock was freed, and no waiter has been notified.
    unnotified: bool,
    /// The run of the server to which the connection leads.
    connected: Option<u8>,
    release: DebugHashed<Unconfirmed>,
    run_ids: DebugHashed<RunIds>,
    /// The releases that the client has written. Only the last one can still be answered.
    wires: [Wire; 3],
    reply: Option<UnlockReply>,
    /// Whether a release was written to the current connection.
    asked: bool,
    written_wholly: [bool; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Ours,
    Free,
    Others,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Released,
    Expired,
    Forgotten,
    Deleted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Wire {
    #[default]
    Nothing,
    /// Written to this run of the server, at this tick, wholly or in part.
    Written {
        run: u8,
        asked: u8,
        whole: bool,
    },
    /// The first release is half served: the key was deleted if it was held (`held`), the message
    /// is not sent yet.
    Half {
        run: u8,
        held: bool,
    },
    Served {
        held: bool,
        asked: u8,
    },
    /// The server will never serve it.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum UnlockReply {
    /// The server held the lock for the client.
    Held,
    /// The server did not hold it: an earlier request of the client freed it.
    FreedBefore,
    Lost,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A release is written, wholly or in part.
    Write(bool),
    /// The server carries out the release of this number, or its next command.
    Serve(usize),
    /// The server will never serve the release of this number.
    Vanish(usize),
    /// The client hears the answer to the last release.
    Hear,
    /// The connection breaks.
    Break,
    /// The client connects again.
    Connect,
    /// The server loses its data, and all connections.
    Restart,
    /// An operator deletes the lock.
    Delete,
    /// Another client takes the lock. It notifies waiters itself when it releases the lock.
    Others,
    /// Time advances by one tick.
    Tick,
}

const SECOND: Duration = Duration::from_secs(1);

fn at(tick: u8) -> Instant {
    Instant::NEVER + SECOND * (u32::from(tick) + 1)
}

/// The client writes every repeat to a new connection, made after the one before it broke.
fn greeting(life: Option<u64>) -> Greeting {
    Greeting { run_identity: life, at: at(0) }
}

impl State {
    fn begin() -> Self {
        let mut lives = RunIds::default();
        lives.meet(Some(0), true, Instant::NEVER);
        let held =
            HeldInterval { since: at(0), until: expiry(at(0), SECOND * u32::from(TTL), 0.0) };
        Self {
            now: 0,
            run: 0,
            key: Key::Ours,
            ended: None,
            unnotified: false,
            connected: Some(0),
            release: DebugHashed::new(Unconfirmed::new(held)),
            run_ids: DebugHashed::new(lives),
            wires: Default::default(),
            reply: None,
            asked: false,
            written_wholly: [false; 3],
        }
    }

    /// The number of releases that were written.
    fn written(&self) -> usize {
        self.wires.iter().filter(|wire| **wire != Wire::Nothing).count()
    }

    fn end(&mut self, how: End) {
        if self.key == Key::Ours {
            (self.key, self.ended) = (Key::Free, Some(how));
        }
    }

    fn write(&mut self, life: u8, whole: bool, rule: Rule) {
        let number = self.written();
        self.wires[number] = Wire::Written { run: life, asked: self.now, whole };
        (self.asked, self.written_wholly[number]) = (true, whole);
        if !whole {
            // A request is cut short only when its connection ends.
            self.broke(rule);
        }
    }

    /// The connection ends. The client notes the release that it wrote to it.
    fn broke(&mut self, rule: Rule) {
        let last = self.written().checked_sub(1).filter(|_| self.asked);
        if let (Some(life), Some(last)) = (self.connected.take(), last)
            && (self.written_wholly[last] || rule == Rule::PartlyWritten)
        {
            let mut release = *self.release;
            release.written(Some(life.into()), Instant::NEVER);
            self.release = DebugHashed::new(release);
        }
    }

    fn serve(&mut self, number: usize, rule: Rule) {
        match self.wires[number] {
            Wire::Written { run: life, asked, .. } => {
                let held = self.key == Key::Ours;
                self.end(End::Released);
                self.unnotified |= held;
                self.wires[number] = if number == 0 {
                    Wire::Half { run: life, held }
                } else {
                    let tells = rule != Rule::SilentRepeat || held;
                    self.unnotified &= !(tells && self.key == Key::Free);
                    Wire::Served { held, asked }
                };
            }
            Wire::Half { held, .. } => {
                self.unnotified = false;
                self.wires[number] = Wire::Served { held, asked: 0 };
            }
            _ => {}
        }
    }

    fn receive(&mut self, rule: Rule) {
        let last = self.written() - 1;
        let Wire::Served { held, asked } = self.wires[last] else { return };
        let greeting = greeting(self.connected.map(u64::from));
        let none = RunIds::default();
        let (greeting, lives, now) = match rule {
            Rule::AnyRun => (self.any_run(), &none, at(self.now)),
            Rule::SameRunOnly => (greeting, &none, at(self.now)),
            Rule::WindowWhenAsked => (greeting, &*self.run_ids, at(asked)),
            _ => (greeting, &*self.run_ids, at(self.now)),
        };
        self.reply = Some(match held {
            true => UnlockReply::Held,
            false if last > 0 && self.release.was_freed(greeting, lives, now) => {
                UnlockReply::FreedBefore
            }
            false => UnlockReply::Lost,
        });
    }

    /// The greeting for which the release counts, whatever run of the server it was written to.
    fn any_run(&self) -> Greeting {
        let none = RunIds::default();
        let fits =
            |life: &u64| self.release.was_freed(greeting(Some(*life)), &none, Instant::NEVER);
        greeting((0..3).find(fits))
    }

    /// A new connection has completed its handshake.
    fn connect(&mut self) {
        let mut lives = *self.run_ids;
        lives.meet(Some(self.run.into()), true, at(self.now));
        (self.run_ids, self.connected, self.asked) =
            (DebugHashed::new(lives), Some(self.run), false);
    }
}

impl Model for ReleaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.reply.is_some() {
            return;
        }
        let written = state.written();
        let last = written.checked_sub(1).map(|last| state.wires[last]);
        // One release per connection. The guard sends the first one only while the window is open.
        let may = if written == 0 { state.now < TTL } else { written < state.wires.len() };
        if state.connected.is_some() && !state.asked && may {
            actions.extend([Action::Write(true), Action::Write(false)]);
        }
        for (number, wire) in state.wires.iter().enumerate() {
            if let Wire::Written { run: life, whole: true, .. } | Wire::Half { run: life, .. } =
                wire
                && *life == state.run
            {
                actions.push(Action::Serve(number));
            }
            // A server may serve a release from a broken connection late, or never.
            let old = state.connected.is_none() || number + 1 < written || !state.asked;
            if old && matches!(wire, Wire::Written { .. } | Wire::Half { .. }) {
                actions.push(Action::Vanish(number));
            }
        }
        match state.connected {
            Some(_) if state.asked && matches!(last, Some(Wire::Served { .. })) => {
                actions.push(Action::Hear);
            }
            None => actions.push(Action::Connect),
            Some(_) => {}
        }
        if state.connected.is_some() {
            actions.push(Action::Break);
        }
        if state.run < 2 {
            actions.push(Action::Restart);
        }
        if state.key == Key::Ours {
            actions.push(Action::Delete);
        } else if state.key == Key::Free {
            actions.push(Action::Others);
        }
        if state.now <= TTL {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Write(whole) => next.write(state.connected?, whole, self.rule),
            Action::Serve(number) => next.serve(number, self.rule),
            Action::Vanish(number) => next.wires[number] = Wire::Over,
            Action::Hear => next.receive(self.rule),
            Action::Break => next.broke(self.rule),
            Action::Connect => next.connect(),
            Action::Restart => {
                next.end(End::Forgotten);
                next.broke(self.rule);
                (next.key, next.run) = (Key::Free, state.run + 1);
                // Waiters lost their connections with the restart, and poll.
                next.unnotified = false;
            }
            Action::Delete => next.end(End::Deleted),
            Action::Others => {
                // The new holder notifies waiters when it releases the lock.
                (next.key, next.unnotified) = (Key::Others, false);
            }
            Action::Tick => {
                next.now += 1;
                if next.now >= TTL {
                    next.end(End::Expired);
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "an unlock that succeeded has freed the lock",
                |model: &Self, state: &State| {
                    let ok =
                        matches!(state.reply, Some(UnlockReply::Held | UnlockReply::FreedBefore));
                    // The client cannot tell a lock that was deleted by hand from one that an
                    // earlier release freed (H23).
                    let earlier = state.written().saturating_sub(1);
                    let freed = match state.ended {
                        Some(End::Released) => true,
                        Some(End::Deleted) => state.written_wholly[..earlier].contains(&true),
                        _ => false,
                    };
                    !model.once.first(0, ok && !freed)
                },
            ),
            Property::always("who waits is told", |model: &Self, state: &State| {
                !model.once.first(1, state.reply.is_some() && state.unnotified)
            }),
            Property::sometimes(
                "a repeat hears that it was freed",
                |model: &Self, state: &State| {
                    let freed = state.reply == Some(UnlockReply::FreedBefore);
                    model.once.first(2, freed && state.ended == Some(End::Released))
                },
            ),
            Property::sometimes("a repeat frees", |model: &Self, state: &State| {
                model.once.first(3, state.reply == Some(UnlockReply::Held) && state.written() > 1)
            }),
            Property::sometimes("a repeat tells of a restart", |model: &Self, state: &State| {
                let lost = state.reply == Some(UnlockReply::Lost) && state.written() > 1;
                model.once.first(4, lost && state.ended == Some(End::Forgotten))
            }),
        ]
    }
}
