use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use quorumlock_core::Instant;

use super::effects::Claims;
use super::{Effect, Hold, Wait, Who};
use crate::history::{Event, Op, Phase};
use crate::stamp::instant;

/// Follows a history event by event: who believes what, and which effects come too late. Keeps what
/// has no end yet, and who has written; what has an end is its caller's.
#[derive(Debug, Default)]
pub struct Clerk {
    clients: HashMap<String, usize>,
    names: HashSet<Arc<str>>,
    /// By client and number, in an order: what has no end at the end comes in the same one each time.
    open: BTreeMap<(usize, u64), Open>,
    granted: usize,
    claims: Claims,
}

/// What came of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Whose it was: its place in the order of their appearance. `None` if it was of no attempt.
    pub client: Option<usize>,
    /// What has come to its end by it.
    pub ended: Option<Ended>,
    /// What became of an effect.
    pub effect: Option<Effect>,
}

/// An attempt that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was granted. Every hold is a task of its own: tasks of one process exclude each other like
    /// any.
    Hold(Hold),
    /// It was not.
    Wait(Wait),
}

/// An attempt or a hold that has no end yet.
#[derive(Debug)]
struct Open {
    name: Arc<str>,
    asked: Instant,
    granted: Option<Grant>,
}

#[derive(Debug)]
struct Grant {
    at: Instant,
    task: usize,
    token: u64,
    valid_until: Instant,
}

impl Clerk {
    /// The next event, in the order of the history.
    pub fn note(&mut self, event: &Event) -> Entry {
        let Some(hold) = event.hold else { return Entry::default() };
        let client = self.number(&event.client);
        let (key, at) = ((client, hold), instant(event.mono_ns));
        let effect = self.claims.note(event, key);
        let ended = match (event.op, event.phase) {
            (Op::Lock, Phase::Invoke) => {
                let name = self.name(event);
                self.open.insert(key, Open { name, asked: at, granted: None });
                None
            }
            (Op::Lock, Phase::Ok) => {
                self.grant(event, key, at);
                None
            }
            (Op::Hold, _) => {
                self.move_end(event, key);
                None
            }
            (Op::Unlock, Phase::Invoke) => {
                self.move_end(event, key);
                self.end(key, at)
            }
            (Op::Lock | Op::Lost, _) => self.end(key, at),
            _ => None,
        };
        Entry { client: Some(client), ended, effect }
    }

    /// Whatever has no end yet ends with the last event; and the clients, in the order of their
    /// appearance.
    #[must_use]
    pub fn close(mut self, last: Instant) -> (Vec<Ended>, Vec<String>) {
        let open = self.open.keys().copied().collect::<Vec<_>>();
        let ended = open.into_iter().filter_map(|key| self.end(key, last)).collect();
        let mut clients = vec![String::new(); self.clients.len()];
        for (name, place) in self.clients {
            clients[place] = name;
        }
        (ended, clients)
    }

    fn number(&mut self, client: &str) -> usize {
        if let Some(number) = self.clients.get(client) {
            return *number;
        }
        let next = self.clients.len();
        self.clients.insert(client.to_owned(), next);
        next
    }

    /// A lock's name is kept once, however many holds it has.
    fn name(&mut self, event: &Event) -> Arc<str> {
        let name = event.name.as_deref().unwrap_or_default();
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn grant(&mut self, event: &Event, key: (usize, u64), at: Instant) {
        let name = self.name(event);
        let task = self.granted;
        self.granted += 1;
        let (token, valid_until) = (event.token.unwrap_or_default(), Instant::NEVER);
        // Of a history that begins in the middle, the asking may be missing.
        let open = self.open.entry(key).or_insert(Open { name, asked: at, granted: None });
        open.granted = Some(Grant { at, task, token, valid_until });
        self.move_end(event, key);
    }

    fn move_end(&mut self, event: &Event, key: (usize, u64)) {
        let granted = self.open.get_mut(&key).and_then(|open| open.granted.as_mut());
        if let (Some(grant), Some(until)) = (granted, event.valid_until_ns) {
            grant.valid_until = instant(until);
        }
    }

    fn end(&mut self, key: (usize, u64), at: Instant) -> Option<Ended> {
        let Open { name, asked, granted } = self.open.remove(&key)?;
        Some(match granted {
            None => Ended::Wait(Wait { name, asked, ended: at }),
            Some(Grant { at: granted, task, token, valid_until }) => {
                let who = Who { locker: key.0, task };
                Ended::Hold(Hold { name, who, asked, granted, released: at, valid_until, token })
            }
        })
    }
}
