//! What a node does: a model of the Lua scripts, held against the real ones by a test.
//!
//! Pure: the node's clock comes in as an argument.

use std::collections::{BTreeMap, VecDeque};

use quorumlock_core::{Counter as Seeded, Name, Nonce, Wire};

use super::page::Page;
use super::queue::Queue;
use super::time::{MS, Micros, SECOND};

/// The data of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    locks: BTreeMap<Name, Held>,
    counters: BTreeMap<Name, Counter>,
    pub(super) queues: BTreeMap<Name, Queue>,
    pub(super) page: Option<Page>,
    /// The script under way is bound to a stamp: it knows floor and largest counter.
    pub(super) bound: bool,
    /// When the last write was, by the world's time.
    at: Micros,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    value: u64,
    until: u64,
}

/// What came of a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    Yes,
    /// The acquisition does not hold the name.
    Gone,
    /// The counter is as high already.
    Moved,
}

#[derive(Clone, Debug)]
struct Before {
    at: Micros,
    was: Was,
}

#[derive(Clone, Debug)]
enum Was {
    Name(Name, Option<Held>, Option<Counter>),
    Page(Option<Box<Page>>),
}

/// The arguments of an acquisition.
#[derive(Clone, Debug)]
pub(super) struct Take {
    pub(super) wire: Wire,
    pub(super) by: Field,
    pub(super) ttl_ms: u64,
    pub(super) holds: u32,
    pub(super) counter: Seeded,
    pub(super) keep_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Token(u64),
    /// Held by another; its remaining milliseconds. Or free, and others go first.
    Busy(Option<u64>),
    /// Held now, perhaps, and the script must be asked.
    Unclear,
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
        if take.counter.tokens == 0 {
            return Ok(Taken::Token(0));
        }
        let token = held.and_then(|_| self.counter(name, now));
        Ok(Taken::Token(token.unwrap_or_else(|| self.next_token(name, take, now))))
    }

    /// `raise.lua`.
    pub(super) fn raise(
        &mut self,
        name: &Name,
        (wire, by): (Wire, Field),
        token: u64,
        keep_ms: u64,
        now: Micros,
    ) -> Result<Raised, WrongType> {
        if !self.holds(name, wire, by, now)? {
            return Ok(Raised::Gone);
        }
        Ok(if self.raise_counter(name, token, keep_ms, now) { Raised::Yes } else { Raised::Moved })
    }

    /// `recreate.lua`: the remaining milliseconds of another if it holds the name.
    pub(super) fn recreate(
        &mut self,
        name: &Name,
        take: &Take,
        token: u64,
        now: Micros,
    ) -> Result<Option<u64>, WrongType> {
        let held = self.held(name, now).copied();
        match held {
            Some(held) if held.wire != take.wire => return Err(WrongType),
            Some(held) if held.by != take.by => return Ok(Some(held.until - now / MS)),
            _ => {}
        }
        self.raise_counter(name, token, take.keep_ms, now);
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
        if self.counter(name, now).is_some()
            && let Some(counter) = self.counters.get_mut(name)
        {
            counter.value += 1;
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

    pub(super) fn counter(&self, name: &Name, now: Micros) -> Option<u64> {
        self.counters.get(name).filter(|counter| now / MS <= counter.until).map(|c| c.value)
    }

    /// Raises it whoever holds the name; whether it was lower.
    pub(super) fn raise_counter(
        &mut self,
        name: &Name,
        token: u64,
        keep_ms: u64,
        now: Micros,
    ) -> bool {
        let lower = self.counter(name, now).unwrap_or(0) < token;
        if lower {
            let counter = Counter { value: token, until: now / MS + keep_ms };
            self.counters.insert(name.clone(), counter);
        }
        self.remember(token);
        lower
    }

    /// To expire when it would have; one that was not there, never.
    pub(super) fn move_counter(&mut self, name: &Name, value: u64) {
        let counter =
            self.counters.entry(name.clone()).or_insert(Counter { value, until: u64::MAX });
        counter.value = value;
    }

    /// It expires no sooner than so long from now.
    pub(super) fn keep_counter(&mut self, name: &Name, keep_ms: u64, now: Micros) {
        if self.counter(name, now).is_some()
            && let Some(counter) = self.counters.get_mut(name)
        {
            counter.until = now / MS + keep_ms;
        }
    }

    pub(super) fn put_lock(&mut self, name: &Name, lock: Held) {
        self.locks.insert(name.clone(), lock);
    }

    pub(super) fn drop_lock(&mut self, name: &Name) -> bool {
        self.locks.remove(name).is_some()
    }

    pub(super) fn drop_counter(&mut self, name: &Name) -> bool {
        self.counters.remove(name).is_some()
    }

    /// A server deletes what has expired when it is touched: no clock that is set back revives it.
    pub(super) fn touch(&mut self, name: &Name, now: Micros) {
        if self.held(name, now).is_none() {
            self.locks.remove(name);
        }
        if self.counter(name, now).is_none() {
            self.counters.remove(name);
        }
    }

    /// Remembers what stands at `name` before a write at `at`.
    pub(super) fn about_to_write(&mut self, name: &Name, at: Micros) {
        self.at = at;
        let lock = self.locks.get(name).copied();
        let counter = self.counters.get(name).copied();
        self.keep_tail(Before { at, was: Was::Name(name.clone(), lock, counter) });
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
                Was::Name(name, lock, counter) => {
                    put(&mut self.locks, &name, lock);
                    put(&mut self.counters, &name, counter);
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

    fn next_token(&mut self, name: &Name, take: &Take, now: Micros) -> u64 {
        const HOUR: Micros = 3_600 * SECOND;
        let last = self.counter(name, now);
        let last = last.filter(|last| *last >= Seeded::UNSEEDED).unwrap_or_else(|| {
            take.counter.seed.clamp(now - HOUR, now + HOUR).max(last.unwrap_or(0))
        });
        let floor = self.page.as_ref().filter(|_| self.bound).map_or(0, |page| page.floor);
        let value = take.counter.least.get().max(last.max(floor) + take.counter.tokens);
        let counter = Counter { value, until: now / MS + take.keep_ms };
        self.counters.insert(name.clone(), counter);
        self.remember(value);
        value
    }

    /// `token.lua`: the largest counter ever issued here, in steps.
    fn remember(&mut self, token: u64) {
        let known = self.page.as_ref().map_or(0, |page| page.fmax);
        if self.bound
            && token > known
            && let Some(page) = self.page_to_write(self.at)
        {
            page.fmax = token + 1024;
        }
    }

    fn holds(&self, name: &Name, wire: Wire, by: Field, now: Micros) -> Result<bool, WrongType> {
        match self.held(name, now) {
            Some(held) if held.wire != wire => Err(WrongType),
            held => Ok(held.is_some_and(|held| held.by == by)),
        }
    }
}

fn put<T>(map: &mut BTreeMap<Name, T>, name: &Name, value: Option<T>) {
    match value {
        Some(value) => map.insert(name.clone(), value),
        None => map.remove(name),
    };
}
