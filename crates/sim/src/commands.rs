//! The server's commands, as far as clients and scripts use them. A test compares each with a real
//! server.

use std::collections::BTreeMap;

use super::resp::Reply;
use super::store::{Data, Entry, Store};
use super::time::{MS, Micros};

/// The subscribers of each channel, by connection, in the order of their subscriptions.
pub type Channels = BTreeMap<Vec<u8>, Vec<usize>>;

/// A message to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub conn: usize,
    pub channel: Vec<u8>,
    pub payload: Vec<u8>,
}

/// A server while it executes commands.
#[derive(Debug, Default)]
pub struct Execution {
    pub store: Store,
    pub channels: Channels,
    /// The node's clock, and the world's.
    pub time: Micros,
    pub at: Micros,
    pub info: Info,
    /// Whether the server has `DELIFEQ`.
    pub has_delifeq: bool,
    /// Whether the server is a replica: it refuses writes.
    pub read_only: bool,
    /// A planted bug: a score that equals the old one counts as larger.
    pub equal_is_larger: bool,
    pub published: Vec<Published>,
}

/// The sections of `INFO`.
#[derive(Clone, Debug, Default)]
pub struct Info {
    pub server: String,
    pub replication: String,
    pub memory: String,
}

impl Info {
    pub fn of(run_id: &str, replication_id: &str, replica: bool) -> Self {
        let role = if replica { "slave" } else { "master" };
        Self {
            server: format!("# Server\r\nredis_version:7.2.4\r\nrun_id:{run_id}\r\n"),
            replication: format!(
                "# Replication\r\nrole:{role}\r\nconnected_slaves:0\r\n\
                 master_replid:{replication_id}\r\nmaster_replid2:{:040}\r\n",
                0
            ),
            memory: "# Memory\r\nmaxmemory_policy:noeviction\r\n".to_owned(),
        }
    }
}

impl Info {
    fn sections(&self, names: &[&[u8]]) -> String {
        let section = |name: &&[u8]| match name.to_ascii_lowercase().as_slice() {
            b"server" => &*self.server,
            b"replication" => &*self.replication,
            b"memory" => &*self.memory,
            _ => "",
        };
        names.iter().map(section).collect::<Vec<_>>().join("\r\n")
    }
}

impl Execution {
    #[expect(clippy::too_many_lines, reason = "an arm for each command")]
    pub fn execute(&mut self, args: &[&[u8]]) -> Reply {
        let Some((name, args)) = args.split_first() else { return Reply::Nil };
        let mut upper = [0; 16];
        let length = name.len().min(16);
        upper[..length].copy_from_slice(&name[..length]);
        upper.make_ascii_uppercase();
        if self.read_only && is_write(&upper[..length], self.has_delifeq) {
            return Reply::read_only();
        }
        match (&upper[..length], args) {
            (b"GET", [key]) => self.get(key),
            (b"SET", [key, value, options @ ..]) => self.set(key, value, options),
            (b"RESTORE", [key, ttl, payload]) => self.restore(key, number(ttl), payload),
            (b"DEL", [key]) => {
                self.touch(key);
                Reply::Int(self.store.remove(key, self.at).into())
            }
            (b"DELIFEQ", [key, value]) if self.has_delifeq => self.delete_if_equal(key, value),
            (b"EXISTS", [key]) => Reply::Int(self.touch(key).into()),
            (b"TYPE", [key]) => Reply::Status(match self.store.get(key, self.time) {
                None => "none",
                Some(Entry { data: Data::Text(_), .. }) => "string",
                Some(Entry { data: Data::Hash(_), .. }) => "hash",
                Some(Entry { data: Data::Sorted(_), .. }) => "zset",
            }),
            (b"PTTL", [key]) => Reply::Int(self.remaining(key)),
            (b"PEXPIRE", [key, ms]) => self.expire(key, number(ms)),
            (b"PEXPIREAT", [key, at]) => {
                let ms = number(at) - (self.time / MS) as i64;
                self.expire(key, ms)
            }
            (b"PERSIST", [key]) => self.persist(key),
            (b"INCR", [key]) => self.increment(key),
            (b"HGET", [key, field]) => self.hash(key, |fields| text_of(fields, field)),
            (b"HEXISTS", [key, field]) => {
                self.hash(key, |fields| Reply::Int(find(fields, field).is_some().into()))
            }
            (b"HLEN", [key]) => self.hash(key, |fields| Reply::Int(fields.len() as i64)),
            (b"HKEYS", [key]) => self.hash(key, |fields| {
                Reply::Array(fields.iter().map(|(field, _)| Reply::text(&**field)).collect())
            }),
            (b"HMGET", [key, names @ ..]) => self.hash(key, |fields| {
                Reply::Array(names.iter().map(|name| text_of(fields, name)).collect())
            }),
            (b"HGETALL", [key]) => self.hash(key, |fields| {
                let pairs = fields.iter().flat_map(|(field, value)| [&**field, &**value]);
                Reply::Array(pairs.map(Reply::text).collect())
            }),
            (b"HSET", [key, pairs @ ..]) if pairs.len() > 1 => self.set_fields(key, pairs),
            (b"HDEL", [key, fields @ ..]) => self.delete_fields(key, fields),
            (b"ZADD", [key, rest @ ..]) if rest.len() > 1 => self.add_member(key, rest),
            (b"ZREM", [key, members @ ..]) => self.remove_members(key, members),
            (b"ZSCORE", [key, member]) => self.sorted(key, |members| {
                let found = members.iter().find(|(_, name)| name == member);
                found.map_or(Reply::Nil, |(score, _)| Reply::text(score.to_string()))
            }),
            (b"ZCARD", [key]) => self.sorted(key, |members| Reply::Int(members.len() as i64)),
            (b"ZRANK", [key, member]) => self.sorted(key, |members| {
                let before = members.iter().position(|(_, name)| name == member);
                before.map_or(Reply::Nil, |before| Reply::Int(before as i64))
            }),
            // One member only.
            (b"ZRANGE", [key, first, last, b"withscores"]) if first == last => {
                let at = number(first);
                self.sorted(key, |members| {
                    let from_end = members.len().checked_sub(at.unsigned_abs() as usize);
                    let at = if at < 0 { from_end } else { usize::try_from(at).ok() };
                    let one = at.and_then(|at| members.get(at));
                    let parts = one.map(|(score, name)| {
                        [&**name, score.to_string().as_bytes()].map(Reply::text)
                    });
                    Reply::Array(parts.into_iter().flatten().collect())
                })
            }
            (b"ZRANGEBYSCORE", [key, above, b"+inf", limit @ ..]) => {
                let count = match limit {
                    [b"limit", b"0", count] => number(count).unsigned_abs() as usize,
                    _ => usize::MAX,
                };
                let above = bound(above);
                self.sorted(key, |members| {
                    let larger = members.iter().filter(|(score, _)| *score > above).take(count);
                    Reply::Array(larger.map(|(_, name)| Reply::text(&**name)).collect())
                })
            }
            (b"ZCOUNT", [key, above, b"+inf"]) => {
                let above = bound(above);
                let larger = |members: &[(f64, Vec<u8>)]| {
                    members.iter().filter(|(score, _)| *score > above).count()
                };
                self.sorted(key, |members| Reply::Int(larger(members) as i64))
            }
            (b"ZREMRANGEBYSCORE", [key, b"-inf", most]) => self.remove_up_to(key, bound(most)),
            (b"TIME", []) => Reply::Array(vec![
                Reply::text((self.time / 1_000_000).to_string()),
                Reply::text((self.time % 1_000_000).to_string()),
            ]),
            (b"INFO", sections @ [_, ..]) => Reply::text(self.info.sections(sections)),
            (b"PUBLISH", [channel, payload]) => self.publish(channel, payload),
            (b"SELECT", [_]) => Reply::OK,
            _ => Reply::Error(format!(
                "ERR unknown command '{}', with args beginning with: ",
                String::from_utf8_lossy(name)
            )),
        }
    }

    /// Whether the key is there. Deletes it if it has expired.
    fn touch(&mut self, key: &[u8]) -> bool {
        self.store.get(key, self.time).is_some()
    }

    fn get(&mut self, key: &[u8]) -> Reply {
        match self.store.get(key, self.time) {
            None => Reply::Nil,
            Some(Entry { data: Data::Text(text), .. }) => Reply::text(&**text),
            Some(_) => Reply::wrong_type(),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]]) -> Reply {
        let (mut only_new, mut until) = (false, None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match &*option.to_ascii_uppercase() {
                b"NX" => only_new = true,
                b"PX" => {
                    let ms = options.next().map_or(0, |ms| number(ms));
                    if ms <= 0 {
                        return Reply::Error("ERR invalid expire time in 'set' command".to_owned());
                    }
                    until = Some(self.deadline(ms));
                }
                _ => return Reply::Error("ERR syntax error".to_owned()),
            }
        }
        if self.touch(key) && only_new {
            return Reply::Nil;
        }
        self.store.put(key, Entry { data: Data::Text(value.to_vec()), until }, self.at);
        Reply::OK
    }

    /// The payload is a hash of one field, as the clients build it (rdb.rs of the redis crate).
    fn restore(&mut self, key: &[u8], ttl: i64, payload: &[u8]) -> Reply {
        if self.touch(key) {
            return Reply::Error("BUSYKEY Target key name already exists.".to_owned());
        }
        let Some(field) = restored_field(payload) else {
            return Reply::Error("ERR Bad data format".to_owned());
        };
        let until = (ttl > 0).then(|| self.deadline(ttl));
        let data = Data::Hash(vec![(field.to_vec(), b"1".to_vec())]);
        self.store.put(key, Entry { data, until }, self.at);
        Reply::OK
    }

    fn delete_if_equal(&mut self, key: &[u8], value: &[u8]) -> Reply {
        match self.store.get(key, self.time) {
            None => Reply::Int(0),
            Some(Entry { data: Data::Text(text), .. }) => {
                let same = text == value;
                Reply::Int((same && self.store.remove(key, self.at)).into())
            }
            Some(_) => Reply::wrong_type(),
        }
    }

    fn remaining(&mut self, key: &[u8]) -> i64 {
        let now = self.time / MS;
        match self.store.get(key, self.time) {
            None => -2,
            Some(Entry { until: None, .. }) => -1,
            Some(Entry { until: Some(until), .. }) => (until - now) as i64,
        }
    }

    fn expire(&mut self, key: &[u8], ms: i64) -> Reply {
        if !self.touch(key) {
            return Reply::Int(0);
        }
        if ms <= 0 {
            return Reply::Int(self.store.remove(key, self.at).into());
        }
        let until = self.deadline(ms);
        if let Some(entry) = self.store.write(key, self.at) {
            entry.until = Some(until);
        }
        Reply::Int(1)
    }

    fn persist(&mut self, key: &[u8]) -> Reply {
        if !self.touch(key) {
            return Reply::Int(0);
        }
        let entry = self.store.write(key, self.at);
        Reply::Int(entry.is_some_and(|entry| entry.until.take().is_some()).into())
    }

    fn increment(&mut self, key: &[u8]) -> Reply {
        let (old, until) = match self.store.get(key, self.time) {
            None => (Some(0), None),
            Some(Entry { data: Data::Text(text), until }) => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                // Neither signs nor zeros before a number.
                (number.filter(|number: &i64| number.to_string().as_bytes() == text), *until)
            }
            Some(_) => return Reply::wrong_type(),
        };
        let Some(old) = old else {
            return Reply::Error("ERR value is not an integer or out of range".to_owned());
        };
        let Some(new) = i64::checked_add(old, 1) else {
            return Reply::Error("ERR increment or decrement would overflow".to_owned());
        };
        let data = Data::Text(new.to_string().into_bytes());
        self.store.put(key, Entry { data, until }, self.at);
        Reply::Int(new)
    }

    fn hash(&mut self, key: &[u8], read: impl FnOnce(&[(Vec<u8>, Vec<u8>)]) -> Reply) -> Reply {
        match self.store.get(key, self.time) {
            None => read(&[]),
            Some(Entry { data: Data::Hash(fields), .. }) => read(fields),
            Some(_) => Reply::wrong_type(),
        }
    }

    fn set_fields(&mut self, key: &[u8], pairs: &[&[u8]]) -> Reply {
        if !self.touch(key) {
            let entry = Entry { data: Data::Hash(Vec::new()), until: None };
            self.store.put(key, entry, self.at);
        }
        let Some(Entry { data: Data::Hash(fields), .. }) = self.store.write(key, self.at) else {
            return Reply::wrong_type();
        };
        let mut added = 0;
        for pair in pairs.chunks_exact(2) {
            match fields.iter_mut().find(|(field, _)| field == pair[0]) {
                Some((_, value)) => *value = pair[1].to_vec(),
                None => {
                    fields.push((pair[0].to_vec(), pair[1].to_vec()));
                    added += 1;
                }
            }
        }
        Reply::Int(added)
    }

    fn delete_fields(&mut self, key: &[u8], gone: &[&[u8]]) -> Reply {
        if !self.touch(key) {
            return Reply::Int(0);
        }
        let Some(Entry { data: Data::Hash(fields), .. }) = self.store.write(key, self.at) else {
            return Reply::wrong_type();
        };
        let before = fields.len();
        fields.retain(|(field, _)| !gone.contains(&&**field));
        let (left, removed) = (fields.len(), before - fields.len());
        if left == 0 {
            self.store.remove(key, self.at);
        }
        Reply::Int(removed as i64)
    }

    fn sorted(&mut self, key: &[u8], read: impl FnOnce(&[(f64, Vec<u8>)]) -> Reply) -> Reply {
        match self.store.get(key, self.time) {
            None => read(&[]),
            Some(Entry { data: Data::Sorted(members), .. }) => read(members),
            Some(_) => Reply::wrong_type(),
        }
    }

    /// `ZADD key [NX] [XX] [GT] [CH] score member`.
    fn add_member(&mut self, key: &[u8], rest: &[&[u8]]) -> Reply {
        let (options, [score, member]) = rest.split_at(rest.len() - 2) else { return Reply::Nil };
        let has = |name: &[u8]| options.iter().any(|option| option.eq_ignore_ascii_case(name));
        let (only_new, larger, counts_changes) = (has(b"NX"), has(b"GT"), has(b"CH"));
        let Some(score) = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok()) else {
            return Reply::Error("ERR value is not a valid float".to_owned());
        };
        let members = match self.store.get(key, self.time) {
            None => &[][..],
            Some(Entry { data: Data::Sorted(members), .. }) => members,
            Some(_) => return Reply::wrong_type(),
        };
        let old = members.iter().find(|(_, name)| name == member).map(|(score, _)| *score);
        let equal = self.equal_is_larger && larger && old == Some(score);
        match old {
            None if has(b"XX") => return Reply::Int(0),
            Some(_) if only_new => return Reply::Int(0),
            Some(old) if larger && score <= old => return Reply::Int(equal.into()),
            Some(old) if score.total_cmp(&old).is_eq() => return Reply::Int(0),
            _ => {}
        }
        if members.is_empty() {
            let entry = Entry { data: Data::Sorted(Vec::new()), until: None };
            self.store.put(key, entry, self.at);
        }
        if let Some(Entry { data: Data::Sorted(members), .. }) = self.store.write(key, self.at) {
            members.retain(|(_, name)| name != member);
            let before = |(other, name): &(f64, Vec<u8>)| {
                other.total_cmp(&score).then_with(|| (**name).cmp(member)).is_lt()
            };
            let place = members.partition_point(before);
            members.insert(place, (score, member.to_vec()));
        }
        Reply::Int((old.is_none() || counts_changes).into())
    }

    fn remove_members(&mut self, key: &[u8], gone: &[&[u8]]) -> Reply {
        if !self.touch(key) {
            return Reply::Int(0);
        }
        let Some(Entry { data: Data::Sorted(members), .. }) = self.store.write(key, self.at) else {
            return Reply::wrong_type();
        };
        let before = members.len();
        members.retain(|(_, name)| !gone.contains(&&**name));
        let (left, removed) = (members.len(), before - members.len());
        if left == 0 {
            self.store.remove(key, self.at);
        }
        Reply::Int(removed as i64)
    }

    fn remove_up_to(&mut self, key: &[u8], most: f64) -> Reply {
        let gone: Vec<Vec<u8>> = match self.store.get(key, self.time) {
            None => return Reply::Int(0),
            Some(Entry { data: Data::Sorted(members), .. }) => members
                .iter()
                .filter(|(score, _)| *score <= most)
                .map(|(_, name)| name.clone())
                .collect(),
            Some(_) => return Reply::wrong_type(),
        };
        match gone.is_empty() {
            true => Reply::Int(0),
            false => self.remove_members(key, &gone.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        }
    }

    fn publish(&mut self, channel: &[u8], payload: &[u8]) -> Reply {
        let subscribers = self.channels.get(channel).map_or(&[][..], Vec::as_slice);
        self.published.extend(subscribers.iter().map(|conn| Published {
            conn: *conn,
            channel: channel.to_vec(),
            payload: payload.to_vec(),
        }));
        Reply::Int(subscribers.len() as i64)
    }

    fn deadline(&self, ms: i64) -> u64 {
        (self.time / MS).saturating_add_signed(ms)
    }
}

/// Whether a replica refuses the command.
pub fn is_write(upper: &[u8], has_delifeq: bool) -> bool {
    const WRITES: [&[u8]; 12] = [
        b"SET",
        b"RESTORE",
        b"DEL",
        b"PEXPIRE",
        b"PERSIST",
        b"INCR",
        b"HSET",
        b"HDEL",
        b"ZADD",
        b"ZREM",
        b"PEXPIREAT",
        b"ZREMRANGEBYSCORE",
    ];
    WRITES.contains(&upper) || (has_delifeq && upper == b"DELIFEQ")
}

/// The field in the payload of a `RESTORE`.
pub fn restored_field(payload: &[u8]) -> Option<&[u8]> {
    let [4, 1, length, rest @ ..] = payload else { return None };
    rest.get(..usize::from(*length))
}

/// The bound of a range of scores, without what says that it is not in the range.
fn bound(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.trim_start_matches('(').parse().unwrap_or(f64::NAN)
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn find<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &[u8]) -> Option<&'a [u8]> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
}

fn text_of(fields: &[(Vec<u8>, Vec<u8>)], name: &[u8]) -> Reply {
    find(fields, name).map_or(Reply::Nil, Reply::text)
}
