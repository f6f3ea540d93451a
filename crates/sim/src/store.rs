//! The data of a node and its operations: a model of the Lua scripts. A test compares it with the
//! real scripts.
//!
//! The model is pure: the time of the node's clock is an argument.

use std::collections::{BTreeMap, VecDeque};

use quorumlock_protocol::{Fence, Name, Nonce, Wire};

use super::admission_records::AdmissionRecords;
use super::queue::Queue;
use super::time::{MS, Micros};

/// The data of one node.
#[derive(Clone, Debug, Default)]
pub struct Store {
    locks: BTreeMap<Name, Held>,
    /// Per slot: the largest token that the node has accepted.
    pub marks: BTreeMap<usize, u64>,
    pub queues: BTreeMap<Name, Queue>,
    pub admission_record: Option<AdmissionRecords>,
    /// Whether the current script is bound to an incarnation.
    pub bound: bool,
    /// The value before each write, the newest last: a crash may undo these writes.
    tail: VecDeque<Before>,
}

/// The id of an acquisition in a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub nonce: Nonce,
    /// The part after the colon in Redisson's field.
    pub client: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub wire: Wire,
    pub by: Field,
    pub holds: u32,
    /// The expiry in milliseconds of the node's clock, as Redis keeps it. The lock is still held in
    /// that millisecond.
    pub until: u64,
}

/// The result of a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    Accepted,
    /// The acquisition does not hold the name.
    Gone,
    /// The token is not above this mark.
    Behind(u64),
}

#[derive(Clone, Debug)]
struct Before {
    at: Micros,
    was: Was,
}

#[derive(Clone, Debug)]
enum Was {
    Name(Name, Option<Held>, Option<u64>),
    Admission(Option<Box<AdmissionRecords>>),
}

/// The arguments of an acquisition.
#[derive(Clone, Debug)]
pub struct AcquireArgs {
    pub wire: Wire,
    pub by: Field,
    pub ttl_ms: u64,
    pub holds: u32,
    /// The proposed token; 0: none.
    pub token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// Granted, and the token accepted.
    Accepted,
    /// Granted, and the token is not above this mark.
    Behind(u64),
    /// Another acquisition holds the name (its remaining milliseconds), or the name is free and
    /// other waiters are ahead in the queue.
    Busy(Option<u64>),
}

impl AcquireReply {
    pub fn is_granted(self) -> bool {
        !matches!(self, Self::Busy(_))
    }
}

/// The key holds the format of the other layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

impl Store {
    /// `acquire.lua`.
    pub fn acquire(
        &mut self,
        name: &Name,
        take: &AcquireArgs,
        now: Micros,
    ) -> Result<AcquireReply, WrongType> {
        let held = self.held(name, now).copied();
        match held {
            Some(held) if held.wire != take.wire => return Err(WrongType),
            Some(held) if held.by != take.by => {
                return Ok(AcquireReply::Busy(Some(held.until - now / MS)));
            }
            _ => {}
        }
        let until = now / MS + take.ttl_ms;
        let lock = Held { wire: take.wire, by: take.by, holds: take.holds, until };
        self.locks.insert(name.clone(), lock);
        Ok(self
            .accept(name, take.token)
            .map_or_else(AcquireReply::Behind, |()| AcquireReply::Accepted))
    }

    /// `raise.lua`.
    pub fn raise(
        &mut self,
        name: &Name,
        (wire, by): (Wire, Field),
        token: u64,
        now: Micros,
    ) -> Result<Raised, WrongType> {
        if !self.holds(name, wire, by, now)? {
            return Ok(Raised::Gone);
        }
        Ok(self.accept(name, token).map_or_else(Raised::Behind, |()| Raised::Accepted))
    }

    /// `regrant.lua`. On refusal: the remaining milliseconds of the acquisition that holds the
    /// name.
    pub fn regrant(
        &mut self,
        name: &Name,
        take: &AcquireArgs,
        now: Micros,
    ) -> Result<Option<u64>, WrongType> {
        let held = self.held(name, now).copied();
        match held {
            Some(held) if held.wire != take.wire => return Err(WrongType),
            Some(held) if held.by != take.by => return Ok(Some(held.until - now / MS)),
            _ => {}
        }
        let _confirms_nothing = self.accept(name, take.token);
        let until = now / MS + take.ttl_ms;
        let until = held.map_or(until, |held| held.until.max(until));
        let lock = Held { wire: take.wire, by: take.by, holds: take.holds, until };
        self.locks.insert(name.clone(), lock);
        Ok(None)
    }

    /// `renew.lua` for one name. Returns whether the caller held it.
    pub fn renew(
        &mut self,
        name: &Name,
        (wire, by): (Wire, Field),
        ttl_ms: u64,
        holds: u32,
        now: Micros,
    ) -> bool {
        if self.holds(name, wire, by, now) != Ok(true) {
            return false;
        }
        if let Some(held) = self.locks.get_mut(name) {
            held.holds = holds;
            held.until = held.until.max(now / MS + ttl_ms);
        }
        true
    }

    /// `release.lua`. Returns whether the caller held the name.
    pub fn release(
        &mut self,
        name: &Name,
        (wire, by): (Wire, Field),
        now: Micros,
    ) -> Result<bool, WrongType> {
        let held = self.holds(name, wire, by, now)?;
        if held {
            self.locks.remove(name);
        }
        Ok(held)
    }

    /// `inspect.lua`. Returns the holder and the remaining milliseconds.
    pub fn inspect(&self, name: &Name, now: Micros) -> Option<(Held, u64)> {
        self.held(name, now).map(|held| (*held, held.until - now / MS))
    }

    /// `force_release.lua`. Returns whether the name was held.
    pub fn force_release(&mut self, name: &Name, now: Micros) -> bool {
        if self.held(name, now).is_none() {
            return false;
        }
        self.locks.remove(name);
        if let Some(next) = self.next_block(name) {
            self.marks.insert(name.slot(), next);
        }
        true
    }

    /// The lock, unless it has expired.
    pub fn held(&self, name: &Name, now: Micros) -> Option<&Held> {
        self.locks.get(name).filter(|held| now / MS <= held.until)
    }

    /// All locks that are held, in the order of their names.
    pub fn all_held(&self, now: Micros) -> impl Iterator<Item = (&Name, &Held)> {
        self.locks.iter().filter(move |(_, held)| now / MS <= held.until)
    }

    /// `accept` of `token.lua`. The error is the mark that the token is not above.
    pub fn accept(&mut self, name: &Name, token: u64) -> Result<(), u64> {
        if token == 0 {
            return Ok(());
        }
        let mark = self.marks.entry(name.slot()).or_default();
        match token > *mark {
            true => {
                *mark = token;
                Ok(())
            }
            false => Err(*mark),
        }
    }

    /// The last token of the first block above the mark, if there is a mark.
    pub fn next_block(&self, name: &Name) -> Option<u64> {
        let mark = self.marks.get(&name.slot())?;
        Some(mark / Fence::BLOCK * Fence::BLOCK + 2 * Fence::BLOCK - 1)
    }

    pub fn put_lock(&mut self, name: &Name, lock: Held) {
        self.locks.insert(name.clone(), lock);
    }

    pub fn drop_lock(&mut self, name: &Name) -> bool {
        self.locks.remove(name).is_some()
    }

    /// A planted bug: a mark that equals the token counts as below it.
    pub fn forget_equal(&mut self, name: &Name, token: u64) {
        if let Some(mark) = self.marks.get_mut(&name.slot()).filter(|mark| **mark == token) {
            *mark = token.saturating_sub(1);
        }
    }

    pub fn drop_mark(&mut self, name: &Name) -> bool {
        self.marks.remove(&name.slot()).is_some()
    }

    /// Deletes the lock if it has expired, as a server does on access: a clock that is set back
    /// cannot revive it.
    pub fn touch(&mut self, name: &Name, now: Micros) {
        if self.held(name, now).is_none() {
            self.locks.remove(name);
        }
    }

    /// Remembers the value at `name` before a write at `at`.
    pub fn about_to_write(&mut self, name: &Name, at: Micros) {
        let lock = self.locks.get(name).copied();
        let mark = self.marks.get(&name.slot()).copied();
        self.keep_tail(Before { at, was: Was::Name(name.clone(), lock, mark) });
    }

    /// The admission record, for a write at `at`.
    pub fn record_to_write(&mut self, at: Micros) -> &mut Option<AdmissionRecords> {
        let was = Was::Admission(self.admission_record.clone().map(Box::new));
        self.keep_tail(Before { at, was });
        &mut self.admission_record
    }

    /// Undoes every write since `since`; whether there was one.
    pub fn lose_tail(&mut self, since: Micros) -> bool {
        let mut any = false;
        while self.tail.back().is_some_and(|before| before.at >= since)
            && let Some(before) = self.tail.pop_back()
        {
            any = true;
            match before.was {
                Was::Name(name, lock, mark) => {
                    put(&mut self.marks, name.slot(), mark);
                    put(&mut self.locks, name, lock);
                }
                Was::Admission(stored) => self.admission_record = stored.map(|stored| *stored),
            }
        }
        any
    }

    fn keep_tail(&mut self, before: Before) {
        const MAX_TAIL: usize = 512;
        self.tail.push_back(before);
        if self.tail.len() > MAX_TAIL {
            self.tail.pop_front();
        }
    }

    fn holds(&self, name: &Name, wire: Wire, by: Field, now: Micros) -> Result<bool, WrongType> {
        match self.held(name, now) {
            Some(held) if held.wire != wire => Err(WrongType),
            held => Ok(held.is_some_and(|held| held.by == by)),
        }
    }
}

fn put<K: Ord, T>(map: &mut BTreeMap<K, T>, key: K, value: Option<T>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
