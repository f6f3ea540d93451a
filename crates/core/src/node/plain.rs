//! Acquisitions without a script: a transaction of the server's own commands, for half of the script's
//! time, and less where several that are asked for at once share it (decision 0029).
//!
//! It is the fast path of acquire.lua, on a single node or a proven one, and decides nothing that is not
//! plain: then the script is asked, in a fresh round. The counter moves for whoever is refused, too. That is
//! safe, since it only rises and a token is taken from the reply to a grant alone (SAFETY.md, Tokens, form c).

use std::sync::atomic::Ordering;

use super::encode::millis;
use super::request::{Dialect, Request};
use super::resp::{Value, bulk, bulk_of, command};
use super::scripts::{Script, Scripts};
use crate::{Counter, Fence, Stamp, Term, Wire};

/// What is asked in the transaction. All who share it are asked for on one connection: their memory is the same
/// node's, under the same stamp.
pub(super) struct Plain<'a> {
    /// Where the memory must be proven: the key of the node's record, and the script bound to its stamp.
    proof: Option<(&'a str, &'a Script)>,
    term: &'a Term,
}

/// What the replies come to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// As the script would have replied.
    Clear(Value),
    /// The memory must be verified again. The name may be held all the same.
    Unproven,
    /// The script must be asked. The name may be held all the same.
    Unclear,
    /// As that, now and ever: the server does not do this for us.
    Forbidden,
}

impl<'a> Plain<'a> {
    /// The plain form of an acquisition, where it has one: with a counter that is surely there, by somebody
    /// who is in no queue and need not know for how long.
    pub(super) fn of(
        request: &'a Request,
        dialect: &Dialect,
        scripts: &'a Scripts,
    ) -> Option<Self> {
        let Request::Acquire { term, counter, in_line: None, .. } = request else { return None };
        let bound = scripts.bound.as_ref();
        let plain = counter.is_plain()
            && !dialect.scripts_only.load(Ordering::Relaxed)
            // A lease that is too long is refused by the script.
            && bound.is_none_or(|bound| millis(term.ttl) <= bound.longest_ms);
        plain.then(|| Self { proof: bound.map(|bound| (&*bound.record, &scripts.acquire)), term })
    }

    /// Begins a transaction: says of how many commands.
    pub(super) fn begin(&self, out: &mut Vec<u8>) -> usize {
        command(out, 1);
        bulk(out, b"MULTI");
        let Some((record, acquire)) = self.proof else { return 1 };
        command(out, 3);
        bulk(out, b"SCRIPT");
        bulk(out, b"EXISTS");
        bulk(out, acquire.digest.as_bytes());
        command(out, 5);
        bulk(out, b"HMGET");
        bulk(out, record.as_bytes());
        for field in ["stamp", "floor", "fmax"] {
            bulk(out, field.as_bytes());
        }
        3
    }

    /// Asks for the name, in a transaction that was begun: says by how many commands.
    pub(super) fn join(&self, dialect: &Dialect, out: &mut Vec<u8>) -> usize {
        match dialect.wire {
            Wire::Redisson => dialect.restore(self.term, out),
            Wire::Redlock => dialect.set(self.term, out),
        }
        command(out, 2);
        bulk(out, b"INCR");
        bulk_of(out, self.term.name.token_key_parts());
        2
    }

    /// Ends a transaction.
    pub(super) fn end(out: &mut Vec<u8>) {
        command(out, 1);
        bulk(out, b"EXEC");
    }
}

/// What a transaction came to, for each of those who share it, in their order.
pub(super) struct Outcome {
    /// If nothing counts, why.
    failed: Option<Said>,
    /// What the memory shows of tokens: above which they are, and of which repairs know.
    bounds: (i64, i64),
    replies: std::vec::IntoIter<Value>,
}

impl Outcome {
    /// Reads the reply to EXEC, or the first error of the transaction; `stamp`: under which the memory must be
    /// proven, if it must.
    pub(super) fn read(reply: Value, stamp: Option<Stamp>) -> Self {
        let failed =
            |why| Self { failed: Some(why), bounds: (0, 0), replies: Vec::new().into_iter() };
        let mut replies = match reply {
            Value::Array(items) => items.into_iter(),
            Value::Error(text) if is_for_ever(&text) => return failed(Said::Forbidden),
            _ => return failed(Said::Unclear),
        };
        let Some(stamp) = stamp else {
            return Self { failed: None, bounds: (0, MOST), replies };
        };
        let (Some(loaded), Some(Value::Array(record))) = (replies.next(), replies.next()) else {
            return failed(Said::Unclear);
        };
        let [known, floor, most] = &record[..] else { return failed(Said::Unclear) };
        // The script cache does not outlive the server (H9, H10), nor the stamp its memory (H13).
        let proven = loaded == Value::Array(vec![Value::Int(1)]);
        if !proven || Stamp::parse(&known.text()) != Some(stamp) {
            return failed(Said::Unproven);
        }
        let (Some(floor), Some(most)) = (mark(floor), mark(most)) else {
            return failed(Said::Unclear);
        };
        Self { failed: None, bounds: (floor, most), replies }
    }
}

impl Iterator for Outcome {
    type Item = Said;

    /// There is one for everybody who asks.
    fn next(&mut self) -> Option<Said> {
        if let Some(why) = &self.failed {
            return Some(why.clone());
        }
        let (Some(taken), Some(risen)) = (self.replies.next(), self.replies.next()) else {
            return Some(Said::Unclear);
        };
        Some(match (taken, risen) {
            // As SET says it, and as RESTORE does.
            (Value::Nil, _) => Said::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("BUSYKEY") => Said::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("ERR") => Said::Forbidden,
            (Value::Okay, Value::Int(token)) => {
                let (floor, most) = self.bounds;
                let last = token.saturating_sub(1);
                // Started by a clock, above the floor, and known to repairs of other nodes.
                let seeded = last >= Counter::UNSEEDED.cast_signed();
                let plain = seeded && last >= floor && token <= most;
                if plain { Said::Clear(Value::Int(token)) } else { Said::Unclear }
            }
            _ => Said::Unclear,
        })
    }
}

/// No permission (ACL), or a server without the command, or one that takes no dump of this format.
fn is_for_ever(error: &str) -> bool {
    error.starts_with("NOPERM") || error.starts_with("ERR unknown command")
}

const MOST: i64 = Fence::MAX.get().cast_signed();

/// A mark of the record; `None` if it says nothing of tokens, which is for the script to name.
fn mark(value: &Value) -> Option<i64> {
    let mark = if *value == Value::Nil { 0 } else { value.text().parse().ok()? };
    (0..=MOST).contains(&mark).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: &str = "0123456789abcdef0123456789abcdef";
    const LAST: i64 = 1_790_000_000_000_000;

    fn one(reply: Value, stamp: Option<Stamp>) -> Said {
        Outcome::read(reply, stamp).next().expect("one for everybody")
    }

    fn said(set: Value, risen: Value, edit: impl FnOnce(&mut Vec<Value>)) -> Said {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let most = text(&(LAST + 10).to_string());
        let record = Value::Array(vec![text(STAMP), text(&LAST.to_string()), most]);
        let loaded = Value::Array(vec![Value::Int(1)]);
        let mut items = vec![loaded, record, set, risen];
        edit(&mut items);
        one(Value::Array(items), Stamp::parse(STAMP))
    }

    fn granted(risen: i64) -> Said {
        said(Value::Okay, Value::Int(risen), |_| {})
    }

    #[test]
    fn a_token_is_above_the_floor_and_known_to_repairs() {
        assert_eq!(granted(LAST + 1), Said::Clear(Value::Int(LAST + 1)));
        assert_eq!(granted(LAST + 10), Said::Clear(Value::Int(LAST + 10)));
        assert_eq!(granted(LAST), Said::Unclear, "not above the floor");
        assert_eq!(granted(LAST + 11), Said::Unclear, "a repair would not know of it");
    }

    #[test]
    fn a_counter_that_no_clock_started_gives_no_token() {
        let no_floor = |items: &mut Vec<Value>| {
            let Value::Array(record) = &mut items[1] else { panic!("the record") };
            record[1] = Value::Nil;
        };
        assert_eq!(said(Value::Okay, Value::Int(1), no_floor), Said::Unclear);
        assert!(matches!(said(Value::Okay, Value::Int(LAST), no_floor), Said::Clear(_)));
    }

    #[test]
    fn no_token_is_beyond_what_doubles_tell_apart() {
        let unproven = |risen| one(Value::Array(vec![Value::Okay, Value::Int(risen)]), None);
        assert_eq!(unproven(MOST), Said::Clear(Value::Int(MOST)));
        assert_eq!(unproven(MOST + 1), Said::Unclear);
        for mark in ["9007199254740992", "-1", "nan", "a word"] {
            for at in [1, 2] {
                let spoilt = |items: &mut Vec<Value>| {
                    let Value::Array(record) = &mut items[1] else { panic!("the record") };
                    record[at] = Value::Text(mark.as_bytes().to_vec());
                };
                let risen = Value::Int(LAST + 1);
                assert_eq!(said(Value::Okay, risen, spoilt), Said::Unclear);
            }
        }
    }

    #[test]
    fn a_refusal_is_one_only_on_a_proven_node() {
        assert_eq!(said(Value::Nil, Value::Int(7), |_| {}), Said::Clear(Value::Nil));
        let gone = |items: &mut Vec<Value>| items[0] = Value::Array(vec![Value::Int(0)]);
        assert_eq!(said(Value::Nil, Value::Int(7), gone), Said::Unproven);
        let flushed =
            |items: &mut Vec<Value>| items[1] = Value::Array(vec![const { Value::Nil }; 3]);
        assert_eq!(said(Value::Okay, Value::Int(LAST + 1), flushed), Said::Unproven);
    }

    #[test]
    fn errors_are_for_the_script_to_name() {
        let aborted = Value::Error("EXECABORT".into());
        assert_eq!(one(aborted, Stamp::parse(STAMP)), Said::Unclear);
        let error = Value::Error("ERR value is not an integer".into());
        assert_eq!(said(Value::Okay, error, |_| {}), Said::Unclear);
    }

    #[test]
    fn where_no_memory_is_proven_the_counter_alone_is_looked_at() {
        let said = |taken, risen| one(Value::Array(vec![taken, risen]), None);
        assert_eq!(said(Value::Okay, Value::Int(LAST)), Said::Clear(Value::Int(LAST)));
        assert_eq!(said(Value::Okay, Value::Int(1)), Said::Unclear);
        let busy = Value::Error("BUSYKEY Target key name already exists.".into());
        assert_eq!(said(busy, Value::Int(LAST)), Said::Clear(Value::Nil));
    }

    #[test]
    fn what_a_server_does_not_do_for_us_is_not_asked_for_again() {
        let refused = |text: &str| one(Value::Error(text.into()), None);
        assert_eq!(refused("NOPERM this user has no permissions"), Said::Forbidden);
        assert_eq!(refused("ERR unknown command 'RESTORE'"), Said::Forbidden);
        assert_eq!(refused("OOM command not allowed"), Said::Unclear);
        let dump = Value::Error("ERR DUMP payload version or checksum are wrong".into());
        assert_eq!(one(Value::Array(vec![dump, Value::Int(LAST)]), None), Said::Forbidden);
    }
}
