use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::Instant;

use super::{Hold, Wait, Who};
use crate::history::{Event, Op, Phase};

/// What a history says, hold by hold: what the judges look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Every hold is a task of its own: tasks of one process exclude each other like any.
    pub holds: Vec<Hold>,
    /// Who asked and was not granted.
    pub waits: Vec<Wait>,
    /// Effects, in the order of the resource.
    pub writes: Vec<Write>,
    /// Holds whose holder was told of the loss: the grant, and when it was told.
    pub told: Vec<(Instant, Instant)>,
    /// When something was broken or mended.
    pub faults: Vec<Instant>,
    /// Attempts that definitely failed, and the first one's error.
    pub failed: u64,
    /// What the first of these was told.
    pub first_failure: Option<String>,
}

/// One effect on the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The lock under which it was made.
    pub name: Arc<str>,
    /// Client and number.
    pub hold: (String, u64),
    /// Whether the resource accepted it.
    pub accepted: bool,
    /// Whether another write came between it and what it was made of.
    pub between: bool,
}

/// Reads events one by one.
#[derive(Debug, Default)]
pub struct Accountant {
    account: Account,
    clients: HashMap<String, usize>,
    open: BTreeMap<(String, u64), Open>,
    last: u64,
    /// What each hold knows of what the lock guards, once it has read that.
    known: HashMap<(String, u64), i64>,
}

/// An attempt or a hold that has no end yet.
#[derive(Debug)]
struct Open {
    name: Arc<str>,
    asked: u64,
    granted: Option<u64>,
    valid_until: u64,
    token: u64,
}

impl Accountant {
    /// The next event, in the order of the history.
    pub fn note(&mut self, event: &Event) {
        self.last = self.last.max(event.mono_ns);
        let number = self.clients.len();
        if matches!(event.op, Op::Lock) && !self.clients.contains_key(&event.client) {
            self.clients.insert(event.client.clone(), number);
        }
        if event.op == Op::Fault {
            self.account.faults.push(instant(event.mono_ns));
        }
        let Some(hold) = event.hold else { return };
        let key = (event.client.clone(), hold);
        match (event.op, event.phase) {
            (Op::Lock, Phase::Invoke) => {
                let name = event.name.as_deref().unwrap_or_default().into();
                let asked = event.mono_ns;
                let open = Open { name, asked, granted: None, valid_until: 0, token: 0 };
                self.open.insert(key, open);
            }
            (Op::Lock, Phase::Ok) => {
                if let Some(open) = self.open.get_mut(&key) {
                    open.granted = Some(event.mono_ns);
                    open.token = event.token.unwrap_or_default();
                }
                self.move_end(&key, event);
            }
            (Op::Lock, phase) => {
                if phase == Phase::Fail {
                    self.account.failed += 1;
                    self.account
                        .first_failure
                        .get_or_insert_with(|| event.what.clone().unwrap_or_default());
                }
                self.end(&key, event.mono_ns);
            }
            (Op::Hold, _) => self.move_end(&key, event),
            (Op::Unlock, Phase::Invoke) => {
                self.move_end(&key, event);
                self.end(&key, event.mono_ns);
            }
            (Op::Lost, phase) => {
                let granted = self.open.get(&key).and_then(|open| open.granted);
                if let (Some(granted), Phase::Info) = (granted, phase) {
                    self.account.told.push((instant(granted), instant(event.mono_ns)));
                }
                self.end(&key, event.mono_ns);
            }
            (Op::Write, phase @ (Phase::Ok | Phase::Fail)) => {
                let name = event.name.as_deref().unwrap_or_default().into();
                let accepted = phase == Phase::Ok;
                let mut between = false;
                if let (Some(known), Some(value)) = (self.known.get_mut(&key), event.value) {
                    between = *known + 1 != value;
                    *known = value;
                }
                self.account.writes.push(Write { name, hold: key, accepted, between });
            }
            (Op::Note, _) if event.what.as_deref() == Some("read") => {
                self.known.insert(key, event.value.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Whatever has no end yet ends with the last event.
    #[must_use]
    pub fn close(mut self) -> Account {
        for key in self.open.keys().cloned().collect::<Vec<_>>() {
            self.end(&key, self.last);
        }
        self.account
    }

    fn move_end(&mut self, key: &(String, u64), event: &Event) {
        if let (Some(open), Some(until)) = (self.open.get_mut(key), event.valid_until_ns) {
            open.valid_until = until;
        }
    }

    fn end(&mut self, key: &(String, u64), at: u64) {
        let Some(open) = self.open.remove(key) else { return };
        let (name, asked, ended) = (open.name, instant(open.asked), instant(at));
        let Some(granted) = open.granted else {
            return self.account.waits.push(Wait { name, asked, ended });
        };
        let who = Who { locker: self.clients[&key.0], task: self.account.holds.len() };
        self.account.holds.push(Hold {
            name,
            who,
            asked,
            granted: instant(granted),
            released: ended,
            valid_until: instant(open.valid_until),
            token: open.token,
        });
    }
}

fn instant(ns: u64) -> Instant {
    Instant::NEVER + Duration::from_nanos(ns)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::history::SCHEMA;

    /// An event of client `client`, at so many nanoseconds.
    pub(in super::super) fn event(
        client: &str,
        mono_ns: u64,
        op: Op,
        phase: Phase,
        hold: u64,
    ) -> Event {
        Event {
            v: SCHEMA,
            run: String::new(),
            seed: 0,
            seq: 0,
            mono_ns,
            wall_ns: 0,
            client: client.to_owned(),
            op,
            phase,
            hold: Some(hold),
            name: Some("x".to_owned()),
            nonce: None,
            token: Some(7),
            valid_until_ns: None,
            node: None,
            value: None,
            what: None,
        }
    }

    fn until(ns: u64, event: Event) -> Event {
        Event { valid_until_ns: Some(ns), ..event }
    }

    fn account(events: &[Event]) -> Account {
        let mut accountant = Accountant::default();
        events.iter().for_each(|event| accountant.note(event));
        accountant.close()
    }

    #[test]
    fn belief_ends_with_the_unlock_the_loss_or_the_last_window() {
        let found = account(&[
            event("a", 10, Op::Lock, Phase::Invoke, 0),
            until(100, event("a", 20, Op::Lock, Phase::Ok, 0)),
            until(150, event("a", 60, Op::Hold, Phase::Info, 0)),
            event("b", 70, Op::Lock, Phase::Invoke, 0),
            until(151, event("a", 120, Op::Unlock, Phase::Invoke, 0)),
            until(200, event("b", 130, Op::Lock, Phase::Ok, 0)),
            event("b", 140, Op::Lost, Phase::Info, 0),
            event("c", 150, Op::Lock, Phase::Invoke, 0),
            until(160, event("c", 155, Op::Lock, Phase::Ok, 0)),
            event("c", 999, Op::Note, Phase::Info, 0),
        ]);
        let ends = found.holds.iter().map(|hold| hold.believed_until()).collect::<Vec<_>>();
        assert_eq!(ends, [instant(120), instant(140), instant(160)]);
        assert_eq!(found.told, [(instant(130), instant(140))]);
        assert_eq!(found.holds[1].who, Who { locker: 1, task: 1 });
    }

    #[test]
    fn who_is_not_granted_waits_until_that_is_known_or_the_end() {
        let found = account(&[
            event("a", 10, Op::Lock, Phase::Invoke, 0),
            event("a", 30, Op::Lock, Phase::Fail, 0),
            event("a", 31, Op::Lock, Phase::Invoke, 1),
            event("b", 40, Op::Lock, Phase::Invoke, 0),
            event("b", 50, Op::Lock, Phase::Unknown, 0),
            event("nemesis", 60, Op::Fault, Phase::Info, 0),
        ]);
        let waits = found.waits.iter().map(|wait| (wait.asked, wait.ended)).collect::<Vec<_>>();
        let pair = |asked, ended| (instant(asked), instant(ended));
        assert_eq!(waits, [pair(10, 30), pair(40, 50), pair(31, 60)]);
        assert_eq!((found.failed, found.faults), (1, vec![instant(60)]));
    }
}
