use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use quorumlock_protocol::Instant;

use super::effects::Claims;
use super::{Effect, Hold, Wait, Who};
use crate::history::{Event, Op, Phase};
use crate::timestamp::instant;

/// Follows a history event by event: which client believes that it holds what, and which effects
/// are too late.
///
/// Stores only what has not ended yet and which holds have written; ended attempts are returned to
/// the caller.
#[derive(Debug, Default)]
pub struct HistoryReplay {
    clients: HashMap<String, usize>,
    names: HashSet<Arc<str>>,
    /// By client and hold number. Ordered, so that [`close`](Self::close) returns what is still
    /// open in a fixed order.
    open: BTreeMap<(usize, u64), Open>,
    claims: Claims,
}

/// The consequences of one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The client's index, in the order of first appearance. `None` if the event belongs to no
    /// attempt.
    pub client: Option<usize>,
    /// The attempt that the event ended.
    pub ended: Option<Ended>,
    /// The judgement of the effect that the event reports.
    pub effect: Option<Effect>,
}

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was granted.
    Hold(Hold),
    /// It was not granted.
    Wait(Wait),
}

/// An attempt or a hold that has not ended yet.
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
    permits: u32,
    reads: bool,
    token: u64,
    valid_until: Instant,
}

impl HistoryReplay {
    /// Takes the next event, in the order of the history.
    pub fn observe(&mut self, event: &Event) -> Entry {
        let Some(hold) = event.hold else { return Entry::default() };
        let client = self.number(&event.client);
        let (key, at) = ((client, hold), instant(event.mono_ns));
        let effect = self.claims.judge(event, key);
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

    /// Ends everything that is still open at `last`. Also returns the names of the clients, in the
    /// order of first appearance.
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

    /// Shares one allocation between all holds of a name.
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
        // In histories without tasks, each attempt is of a task of its own.
        let task = event.task.unwrap_or(key.1) as usize;
        let (token, valid_until) = (event.token.unwrap_or_default(), Instant::NEVER);
        let (permits, reads) = (event.permits.unwrap_or(1), event.reads);
        // If the history begins in the middle of an attempt, its `invoke` event is missing.
        let asked = self.open.get(&key).map_or(at, |open| open.asked);
        // The grant tells the slot: the name is that of the grant.
        let granted = Some(Grant { at, task, permits, reads, token, valid_until });
        self.open.insert(key, Open { name, asked, granted });
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
            None => Ended::Wait(Wait { name, locker: key.0, asked, ended: at }),
            Some(Grant { at: granted, task, permits, reads, token, valid_until }) => {
                let who = Who { locker: key.0, task };
                let released = at;
                Ended::Hold(Hold {
                    name,
                    permits,
                    reads,
                    who,
                    asked,
                    granted,
                    released,
                    valid_until,
                    token,
                })
            }
        })
    }
}
