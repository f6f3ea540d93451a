use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quorumlock_core::Instant;

use super::{MOST, instant};
use crate::history::{Event, Op, Phase};
use crate::judge::{Hold, Who};

/// Who believes what: from the grant to the earliest of the release's sending, the loss, and the
/// last end of validity.
#[derive(Debug, Default)]
pub(super) struct Beliefs {
    names: HashSet<Arc<str>>,
    asked: HashMap<(usize, u64), Instant>,
    open: HashMap<(usize, u64), Hold>,
    closed: Vec<Hold>,
    granted: usize,
    missed: u64,
}

impl Beliefs {
    /// Takes an event of a client into account.
    pub(super) fn event(&mut self, event: &Event, client: usize, at: Instant) {
        let Some(hold) = event.hold else { return };
        let key = (client, hold);
        match (event.op, event.phase) {
            (Op::Lock, Phase::Invoke) => {
                self.asked.insert(key, at);
            }
            (Op::Lock, Phase::Ok) => self.grant(event, key, at),
            (Op::Lock, _) => {
                self.asked.remove(&key);
            }
            (Op::Hold, _) => self.extend(event, key),
            (Op::Unlock, Phase::Invoke) => {
                self.extend(event, key);
                self.close(key, at);
            }
            (Op::Lost, _) => self.close(key, at),
            _ => {}
        }
    }

    /// The holds in the order of their grants, and how many there was no room for. What is still
    /// believed ends with the history.
    pub(super) fn finish(mut self, end: Instant) -> (Vec<Hold>, u64) {
        let keys: Vec<_> = self.open.keys().copied().collect();
        for key in keys {
            self.close(key, end);
        }
        self.closed.sort_by_key(|hold| (hold.granted, hold.who, hold.token));
        (self.closed, self.missed)
    }

    fn grant(&mut self, event: &Event, key: (usize, u64), at: Instant) {
        let asked = self.asked.remove(&key).unwrap_or(at);
        if self.closed.len() + self.open.len() >= MOST {
            self.missed += 1;
            return;
        }
        let name = event.name.as_deref().unwrap_or_default();
        let name = self.names.get(name).cloned().unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            self.names.insert(Arc::clone(&name));
            name
        });
        // Every hold is a task of its own, as the judges have it: those of one process exclude each
        // other like any.
        let who = Who { locker: key.0, task: self.granted };
        self.granted += 1;
        let valid_until = instant(event.valid_until_ns.unwrap_or_default());
        let token = event.token.unwrap_or_default();
        let hold = Hold { name, who, asked, granted: at, released: at, valid_until, token };
        self.open.insert(key, hold);
    }

    fn extend(&mut self, event: &Event, key: (usize, u64)) {
        if let (Some(hold), Some(until)) = (self.open.get_mut(&key), event.valid_until_ns) {
            hold.valid_until = instant(until);
        }
    }

    fn close(&mut self, key: (usize, u64), at: Instant) {
        if let Some(hold) = self.open.remove(&key) {
            self.closed.push(Hold { released: at, ..hold });
        }
    }
}
