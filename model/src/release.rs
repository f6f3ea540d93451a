//! A release whose connection breaks, and which is asked again (docs/decisions/0031).
//!
//! One server, one holder, ticks instead of time. The server may restart without its data, the lock
//! may expire, an operator may delete it, and the connection may break at any time: before or after
//! a release is wholly written, served or answered. The question: is an unlock that is told Ok
//! true?

use std::time::Duration;

use quorumlock_core::{Greeting, Held, Instant, Lives, Unconfirmed};
use quorumlock_watchdog::expiry;
use stateright::{Model, Property};

use crate::kept::Kept;
use crate::search::Once;

/// How long the lease is, in ticks.
const TTL: u8 = 2;

/// The rule by which a repeat that hears "not held" counts as a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's.
    Library,
    /// A planted bug: a restart is not looked for.
    AnyLife,
    /// A planted bug: a restart is looked for between the two requests alone.
    SameLifeOnly,
    /// A planted bug: the window must be open when the repeat is asked.
    WindowWhenAsked,
    /// A planted bug: the first request may have been written in part.
    PartlyWritten,
    /// A planted bug: a repeat that frees nothing tells nobody.
    SilentRepeat,
}

/// What is searched.
#[derive(Debug)]
pub struct ReleaseModel {
    rule: Rule,
    once: Once,
}

impl ReleaseModel {
    /// With this rule.
    pub fn new(rule: Rule) -> Self {
        Self { rule, once: Once::default() }
    }
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// Counts restarts.
    life: u8,
    /// Who holds the name.
    key: Key,
    /// How our hold ended at the server.
    ended: Option<End>,
    /// The lock was freed, and nobody was told.
    untold: bool,
    /// The life to which the connection leads.
    connected: Option<u8>,
    release: Kept<Unconfirmed>,
    lives: Kept<Lives>,
    /// The releases that were written. The last one may be answered.
    wires: [Wire; 3],
    told: Option<Told>,
    /// Whether a release was written to the present connection.
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
    /// Written to a life, at a tick: wholly or not.
    Written {
        life: u8,
        asked: u8,
        whole: bool,
    },
    /// Of the first: the key is looked for, the message not sent. Whether it was held.
    Half {
        life: u8,
        held: bool,
    },
    Served {
        held: bool,
        asked: u8,
    },
    /// It will never be served.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    /// It was held.
    Held,
    /// It was not: an earlier request has freed it.
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
    /// What was written will not be served.
    Vanish(usize),
    /// The client hears the answer to the last one.
    Hear,
    /// The connection breaks.
    Break,
    /// The client connects again.
    Connect,
    /// The server loses its data, and all connections.
    Restart,
    /// An operator deletes the lock.
    Delete,
    /// Another client takes the lock, or gives it back.
    Others,
    /// Time goes on.
    Tick,
}

const SECOND: Duration = Duration::from_secs(1);

fn at(tick: u8) -> Instant {
    Instant::NEVER + SECOND * (u32::from(tick) + 1)
}

/// Every repeat goes on a connection of its own, which is made after the one before broke.
fn greeting(life: Option<u64>) -> Greeting {
    Greeting { life, at: at(0) }
}

impl State {
    fn begin() -> Self {
        let mut lives = Lives::default();
        lives.meet(Some(0), Instant::NEVER);
        let held = Held { since: at(0), until: expiry(at(0), SECOND * u32::from(TTL), 0.0) };
        Self {
            now: 0,
            life: 0,
            key: Key::Ours,
            ended: None,
            untold: false,
            connected: Some(0),
            release: Kept::new(Unconfirmed::new(held)),
            lives: Kept::new(lives),
            wires: Default::default(),
            told: None,
            asked: false,
            written_wholly: [false; 3],
        }
    }

    /// How many releases were written.
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
        self.wires[number] = Wire::Written { life, asked: self.now, whole };
        (self.asked, self.written_wholly[number]) = (true, whole);
        if !whole {
            // Nothing but the end of the connection cuts a request short.
            self.broke(rule);
        }
    }

    /// The connection is gone: the client notes what was written to it.
    fn broke(&mut self, rule: Rule) {
        let last = self.written().checked_sub(1).filter(|_| self.asked);
        if let (Some(life), Some(last)) = (self.connected.take(), last)
            && (self.written_wholly[last] || rule == Rule::PartlyWritten)
        {
            let mut release = *self.release;
            release.written(Some(life.into()), Instant::NEVER);
            self.release = Kept::new(release);
        }
    }

    fn serve(&mut self, number: usize, rule: Rule) {
        match self.wires[number] {
            Wire::Written { life, asked, .. } => {
                let held = self.key == Key::Ours;
                self.end(End::Released);
                self.untold |= held;
                self.wires[number] = if number == 0 {
                    Wire::Half { life, held }
                } else {
                    let tells = rule != Rule::SilentRepeat || held;
                    self.untold &= !(tells && self.key == Key::Free);
                    Wire::Served { held, asked }
                };
            }
            Wire::Half { held, .. } => {
                self.untold = false;
                self.wires[number] = Wire::Served { held, asked: 0 };
            }
            _ => {}
        }
    }

    fn hear(&mut self, rule: Rule) {
        let last = self.written() - 1;
        let Wire::Served { held, asked } = self.wires[last] else { return };
        let greeting = greeting(self.connected.map(u64::from));
        let none = Lives::default();
        let (greeting, lives, now) = match rule {
            Rule::AnyLife => (self.any_life(), &none, at(self.now)),
            Rule::SameLifeOnly => (greeting, &none, at(self.now)),
            Rule::WindowWhenAsked => (greeting, &*self.lives, at(asked)),
            _ => (greeting, &*self.lives, at(self.now)),
        };
        self.told = Some(match held {
            true => Told::Held,
            false if last > 0 && self.release.freed_it(greeting, lives, now) => Told::FreedBefore,
            false => Told::Lost,
        });
    }

    /// Whatever life it was written to.
    fn any_life(&self) -> Greeting {
        let none = Lives::default();
        let fits = |life: &u64| self.release.freed_it(greeting(Some(*life)), &none, Instant::NEVER);
        greeting((0..3).find(fits))
    }

    /// The connection is greeted.
    fn connect(&mut self) {
        let mut lives = *self.lives;
        lives.meet(Some(self.life.into()), at(self.now));
        (self.lives, self.connected, self.asked) = (Kept::new(lives), Some(self.life), false);
    }
}

impl Model for ReleaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.told.is_some() {
            return;
        }
        let written = state.written();
        let last = written.checked_sub(1).map(|last| state.wires[last]);
        // Once per connection; the first one while the window is open, as the guard checks.
        let may = if written == 0 { state.now < TTL } else { written < state.wires.len() };
        if state.connected.is_some() && !state.asked && may {
            actions.extend([Action::Write(true), Action::Write(false)]);
        }
        for (number, wire) in state.wires.iter().enumerate() {
            if let Wire::Written { life, whole: true, .. } | Wire::Half { life, .. } = wire
                && *life == state.life
            {
                actions.push(Action::Serve(number));
            }
            // On a connection that broke it may be served late, or never.
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
        if state.life < 2 {
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
            Action::Hear => next.hear(self.rule),
            Action::Break => next.broke(self.rule),
            Action::Connect => next.connect(),
            Action::Restart => {
                next.end(End::Forgotten);
                next.broke(self.rule);
                (next.key, next.life) = (Key::Free, state.life + 1);
                // Whoever waits has lost its connection, and looks.
                next.untold = false;
            }
            Action::Delete => next.end(End::Deleted),
            Action::Others => {
                // Whoever has it now tells of its release.
                (next.key, next.untold) = (Key::Others, false);
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
                    let ok = matches!(state.told, Some(Told::Held | Told::FreedBefore));
                    // A lock deleted by hand is not told from one that an earlier release freed
                    // (H23).
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
                !model.once.first(1, state.told.is_some() && state.untold)
            }),
            Property::sometimes(
                "a repeat hears that it was freed",
                |model: &Self, state: &State| {
                    let freed = state.told == Some(Told::FreedBefore);
                    model.once.first(2, freed && state.ended == Some(End::Released))
                },
            ),
            Property::sometimes("a repeat frees", |model: &Self, state: &State| {
                model.once.first(3, state.told == Some(Told::Held) && state.written() > 1)
            }),
            Property::sometimes("a repeat tells of a restart", |model: &Self, state: &State| {
                let lost = state.told == Some(Told::Lost) && state.written() > 1;
                model.once.first(4, lost && state.ended == Some(End::Forgotten))
            }),
        ]
    }
}
