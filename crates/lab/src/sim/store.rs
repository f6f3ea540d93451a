//! What a node does: a model of the Lua scripts, held against the real ones by a test.
//!
//! Pure: the node's clock comes in as an argument.

use std::collections::{BTreeMap, VecDeque};

use quorumlock_core::{Fence, Name, Nonce, Wire};

use super::page::Page;
use super::queue::Queue;
use super::time::{MS, Micros};

/// The data of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    locks: BTreeMap<Name, Held>,
    /// By slot: the largest token that was accepted.
    pub(super) marks: BTreeMap<usize, u64>,
    pub(super) queues: BTreeMap<Name, Queue>,
    pub(super) page: Option<Page>,
    /// The script under way is bound to a stamp.
    pub(super) bound: bool,
    /// What stood there before each write, the newest last: what a crash may lose.
    tail: VecDeque<Before>,
}

/// The id under which an acquisition stands on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Field {
    pub(super) nonce: Nonce,
    /// Behind the colon of Redisson's field.
    pub(super) client: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) wire: Wire,
    pub(super) by: Field,
    pub(super) holds: u32,
    /// In milliseconds of the node's clock, as Redis keeps it: it lives through that one.
    pub(super) until: u64,
}

/// What came of a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
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
    Page(Option<Box<Page>>),
}

/// The arguments of an acquisition.
#[derive(Clone, Debug)]
pub(super) struct Take {
    pub(super) wire: Wire,
    pub(super) by: Field,
    pub(super) ttl_ms: u64,
    pub(super) holds: u32,
    /// What is proposed; 0: none.
    pub(super) token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Granted, and the token accepted.
    Accepted,
    /// Granted, and the token is not above this mark.
    Behind(u64),
    /// Held by another; its remaining milliseconds. Or free, and others go first.
    Busy(Option<u64>),
}

impl Taken {
    pub(super) fn is_granted(self) -> bool {
        !matches!(self, Self::Busy(_))
    }
}

/// The key holds the other wire's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType;

impl Store {
    /// `acquire.lua`.
    pub(super) fn acquire(
        &mut self,
        name: &Name,
        take: &Take,
        now: Micros,
    ) -> Result<Taken, WrongType> {
        let held = self.held(name, now).copied();
        match held {
            Some(held) if held.wire != take.wire => return Err(WrongType),
            Some(held) if held.by != take.by => {
                return Ok(Taken::Busy(Some(held.until - now / MS)));
            }
            _ => {}
        }
        let until = now / MS + take.ttl_ms;
        let lock = Held { wire: take.wire, by: take.by, holds: take.holds, until };
        self.locks.insert(name.clone(), lock);
        Ok(self.accept(name, take.token).map_or_else(Taken::Behind, |()| Taken::Accepted))
    }

    /// `raise.lua`.
    pub(super) fn raise(
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

    /// `recreate.lua`: the remaining milliseconds of another if it holds the name.
    pub(super) fn recreate(
        &mut self,
        name: &Name,
        take: &Take,
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

    /// `renew.lua`, for one name: whether it was held.
    pub(super) fn renew(
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

    /// `release.lua`: whether it was held.
    pub(super) fn release(
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

    /// `inspect.lua`: who holds it, and the milliseconds left.
    pub(super) fn inspect(&self, name: &Name, now: Micros) -> Option<(Held, u64)> {
        self.held(name, now).map(|held| (*held, held.until - now / MS))
    }

    /// `force_release.lua`: whether anybody held it.
    pub(super) fn force_release(&mut self, name: &Name, now: Micros) -> bool {
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
    pub(super) fn held(&self, name: &Name, now: Micros) -> Option<&Held> {
        self.locks.get(name).filter(|held| now / MS <= held.until)
    }

    /// All that is held, by name.
    pub(super) fn all_held(&self, now: Micros) -> impl Iterator<Item = (&Name, &Held)> {
        self.locks.iter().filter(move |(_, held)| now / MS <= held.until)
    }

    /// `accept` of `token.lua`: or the mark that the token is not above.
    pub(super) fn accept(&mut self, name: &Name, token: u64) -> Result<(), u64> {
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

    /// The last token of the first block above the mark, if there is one.
    pub(super) fn next_block(&self, name: &Name) -> Option<u64> {
        let mark = self.marks.get(&name.slot())?;
        Some(mark / Fence::BLOCK * Fence::BLOCK + 2 * Fence::BLOCK - 1)
    }

    pub(super) fn put_lock(&mut self, name: &Name, lock: Held) {
        self.locks.insert(name.clone(), lock);
    }

    pub(super) fn drop_lock(&mut self, name: &Name) -> bool {
        self.locks.remove(name).is_some()
    }

    /// A planted bug: a mark that equals the token is below it.
    pub(super) fn forget_equal(&mut self, name: &Name, token: u64) {
        if let Some(mark) = self.marks.get_mut(&name.slot()).filter(|mark| **mark == token) {
            *mark = token.saturating_sub(1);
        }
    }

    pub(super) fn drop_mark(&mut self, name: &Name) -> bool {
        self.marks.remove(&name.slot()).is_some()
    }

    /// A server deletes what has expired when it is touched: no clock that is set back revives it.
    pub(super) fn touch(&mut self, name: &Name, now: Micros) {
        if self.held(name, now).is_none() {
            self.locks.remove(name);
        }
    }

    /// Remembers what stands at `name` before a write at `at`.
    pub(super) fn about_to_write(&mut self, name: &Name, at: Micros) {
        let lock = self.locks.get(name).copied();
        let mark = self.marks.get(&name.slot()).copied();
        self.keep_tail(Before { at, was: Was::Name(name.clone(), lock, mark) });
    }

    /// The record, about to be written at `at`.
    pub(super) fn page_to_write(&mut self, at: Micros) -> &mut Option<Page> {
        let was = Was::Page(self.page.clone().map(Box::new));
        self.keep_tail(Before { at, was });
        &mut self.page
    }

    /// Undoes every write since `since`; whether there was one.
    pub(super) fn lose_tail(&mut self, since: Micros) -> bool {
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
                Was::Page(page) => self.page = page.map(|page| *page),
            }
        }
        any
    }

    fn keep_tail(&mut self, before: Before) {
        const MOST: usize = 512;
        self.tail.push_back(before);
        if self.tail.len() > MOST {
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
