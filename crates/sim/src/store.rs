//! The data of a node: keys of the server's types, each with its expiry.
//!
//! The time of the node's clock is an argument.

use std::collections::{BTreeMap, VecDeque};

use quorumlock_protocol::{Name, Nonce};

use super::time::{MS, Micros, SECOND};

/// The longest time whose writes a crash undoes.
pub const MAX_LOST_TIME: Micros = 20 * SECOND;

/// The data of one node.
#[derive(Clone, Debug, Default)]
pub struct Store {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// The value before each write of the last [`MAX_LOST_TIME`], the newest last: a crash may undo
    /// these writes.
    tail: VecDeque<Before>,
    /// No crash undoes writes.
    durable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub data: Data,
    /// The expiry in milliseconds of the node's clock. The key is still there in that millisecond.
    pub until: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Text(Vec<u8>),
    /// In the order in which the fields were added.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// In the order of the scores.
    Sorted(Vec<(f64, Vec<u8>)>),
}

#[derive(Clone, Debug)]
struct Before {
    at: Micros,
    key: Vec<u8>,
    was: Option<Entry>,
}

/// A lock that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub nonce: Nonce,
    /// The expiry in milliseconds of the node's clock.
    pub until: u64,
}

impl Entry {
    fn is_there(&self, now: Micros) -> bool {
        self.until.is_none_or(|until| now / MS <= until)
    }

    /// The holders of the lock at `now`: several only if they read.
    fn holders(&self, now: Micros) -> impl Iterator<Item = Held> {
        let until = self.until.unwrap_or(u64::MAX);
        let (one, several) = match &self.data {
            Data::Text(text) => (Some(text), &[][..]),
            Data::Hash(fields) => (fields.first().map(|(field, _)| field), &[][..]),
            Data::Sorted(members) => (None, &members[..]),
        };
        let several = several.iter().map(|(score, member)| (member, *score as u64));
        let several = several.filter(move |(_, until)| *until > now / MS);
        one.map(|id| (id, until)).into_iter().chain(several).filter_map(|(id, until)| {
            let nonce = Nonce::parse(std::str::from_utf8(id).ok()?)?;
            Some(Held { nonce, until })
        })
    }
}

impl Store {
    /// An empty store. `durable`: [`Store::lose_tail`] is never called.
    pub fn new(durable: bool) -> Self {
        Self { durable, ..Self::default() }
    }

    /// The entry. Deletes it if it has expired, as a server does on access: a clock that is set
    /// back cannot revive it.
    pub fn get(&mut self, key: &[u8], now: Micros) -> Option<&Entry> {
        if !self.entries.get(key)?.is_there(now) {
            self.entries.remove(key);
        }
        self.entries.get(key)
    }

    /// The entry, for a write at `at` of the world's time.
    pub fn write(&mut self, key: &[u8], at: Micros) -> Option<&mut Entry> {
        if !self.durable {
            let was = self.entries.get(key).cloned();
            self.keep_tail(Before { at, key: key.to_vec(), was });
        }
        self.entries.get_mut(key)
    }

    pub fn put(&mut self, key: &[u8], entry: Entry, at: Micros) {
        let was = self.entries.insert(key.to_vec(), entry);
        self.keep_tail(Before { at, key: key.to_vec(), was });
    }

    /// Removes the key; whether it was there.
    pub fn remove(&mut self, key: &[u8], at: Micros) -> bool {
        let was = self.entries.remove(key);
        let there = was.is_some();
        if there {
            self.keep_tail(Before { at, key: key.to_vec(), was });
        }
        there
    }

    /// The slots whose marks exist.
    pub fn mark_slots(&self) -> impl Iterator<Item = usize> {
        const PREFIX: &[u8] = b"quorumlock:token:{";
        let marks = self.entries.range(PREFIX.to_vec()..).map_while(|(key, _)| {
            let tag = key.strip_prefix(PREFIX)?.strip_suffix(b"}")?;
            std::str::from_utf8(tag).ok()
        });
        marks.filter_map(|tag| Name::new(tag).ok()).map(|name| name.slot())
    }

    /// The value of a field of a hash.
    pub fn field(&self, key: &[u8], field: &[u8]) -> Option<&[u8]> {
        let Data::Hash(fields) = &self.entries.get(key)?.data else { return None };
        fields.iter().find(|(name, _)| name == field).map(|(_, value)| &**value)
    }

    /// Deletes a field of a hash.
    pub fn drop_field(&mut self, key: &[u8], field: &[u8]) {
        if let Some(Entry { data: Data::Hash(fields), .. }) = self.entries.get_mut(key) {
            fields.retain(|(name, _)| name != field);
        }
    }

    /// The holders of the lock, unless it has expired: several only if they read.
    pub fn holders(&self, name: &Name, now: Micros) -> impl Iterator<Item = Held> {
        let entry = self.entries.get(name.as_str().as_bytes());
        let entry = entry.filter(|entry| entry.is_there(now));
        entry.into_iter().flat_map(move |entry| entry.holders(now))
    }

    /// All locks that are held, in the order of their names.
    pub fn all_held(&self, now: Micros) -> impl Iterator<Item = (String, Held)> {
        let locks =
            self.entries.iter().filter(move |(key, entry)| entry.is_there(now) && is_lock(key));
        locks.flat_map(move |(key, entry)| {
            let name = String::from_utf8_lossy(key).into_owned();
            entry.holders(now).map(move |held| (name.clone(), held))
        })
    }

    /// The members of a sorted set, in the order of the scores.
    pub fn members(&self, key: &[u8], now: Micros) -> impl Iterator<Item = &[u8]> {
        let entry = self.entries.get(key).filter(|entry| entry.is_there(now));
        let members = match entry.map(|entry| &entry.data) {
            Some(Data::Sorted(members)) => &members[..],
            _ => &[],
        };
        members.iter().map(|(_, member)| &**member)
    }

    /// The remaining milliseconds of the lock, until its last holder ends, if it is held.
    pub fn remaining(&self, name: &Name, now: Micros) -> Option<u64> {
        self.holders(name, now).map(|held| held.until - now / MS).max()
    }

    pub fn drop_lock(&mut self, name: &Name) -> bool {
        self.entries.remove(name.as_str().as_bytes()).is_some()
    }

    pub fn drop_mark(&mut self, name: &Name) -> bool {
        self.entries.remove(name.mark_key().as_bytes()).is_some()
    }

    /// Deletes the lock if it has expired.
    pub fn touch(&mut self, name: &Name, now: Micros) {
        self.get(name.as_str().as_bytes(), now);
    }

    /// Undoes every write since `since`; whether there was one.
    pub fn lose_tail(&mut self, since: Micros) -> bool {
        let mut any = false;
        while self.tail.back().is_some_and(|before| before.at >= since)
            && let Some(before) = self.tail.pop_back()
        {
            any = true;
            match before.was {
                Some(entry) => self.entries.insert(before.key, entry),
                None => self.entries.remove(&before.key),
            };
        }
        any
    }

    /// Forgets all writes of a command at once.
    fn keep_tail(&mut self, before: Before) {
        if self.durable {
            return;
        }
        let since = before.at.saturating_sub(MAX_LOST_TIME);
        self.tail.push_back(before);
        while self.tail.front().is_some_and(|oldest| oldest.at < since) {
            self.tail.pop_front();
        }
    }
}

/// Whether the key is that of a lock, or of a slot of permits.
fn is_lock(key: &[u8]) -> bool {
    !key.starts_with(b"quorumlock:") || key.starts_with(b"quorumlock:permit:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_undoes_whole_commands() {
        let text = |text: &str| Entry { data: Data::Text(text.into()), until: None };
        let mut store = Store::default();
        store.put(b"k", text("old"), 0);
        for _ in 0..10_000 {
            store.put(b"k", text("new"), MS);
            store.remove(b"k", MS);
        }
        assert!(store.lose_tail(MS));
        assert_eq!(store.get(b"k", 0), Some(&text("old")));
        store.put(b"k", text("new"), MAX_LOST_TIME + 1);
        assert!(store.lose_tail(0) && !store.lose_tail(0));
        assert_eq!(store.get(b"k", 0), Some(&text("old")), "written too long ago to be lost");
    }
}
