//! The fast path: acquisitions without a script, by a transaction of the server's own commands, for half of the
//! script's time, and less where several that are asked for at once share it (decision 0029).
//!
//! It decides nothing that is not plain: then the script is asked, in a fresh round. It moves the mark for a
//! caller that is refused the name, too, so a call polls by script (SAFETY.md, Tokens).

use std::sync::atomic::Ordering;

use super::encode::millis;
use super::request::{Dialect, Request};
use super::resp::{Value, bulk, command, number};
use super::scripts::{Script, Scripts};
use crate::{Fence, Stamp, Term, Wire};

/// What is asked in the transaction. All who share it are asked for on one connection: their memory is the same
/// node's, under the same stamp.
pub(super) struct Plain<'a> {
    /// Where the memory must be proven: the key of the node's record, and the script bound to its stamp.
    proof: Option<(&'a str, &'a Script)>,
    term: &'a Term,
    token: Fence,
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
    /// The plain form of an acquisition, where it has one: by a caller that is in no queue and need not know for
    /// how long the name is held.
    pub(super) fn of(
        request: &'a Request,
        dialect: &Dialect,
        scripts: &'a Scripts,
    ) -> Option<Self> {
        let Request::Acquire { term, proposal, in_line: None, .. } = request else { return None };
        let bound = scripts.bound.as_ref();
        let plain = proposal.alone
            && !proposal.by_script
            && !dialect.scripts_only.load(Ordering::Relaxed)
            // A lease that is too long is refused by the script.
            && bound.is_none_or(|bound| millis(term.ttl) <= bound.longest_ms);
        let proof = bound.map(|bound| (&*bound.record, &scripts.acquire));
        plain.then_some(Self { proof, term, token: proposal.token })
    }

    /// Whether the server's one command does it all: nothing is proven, and no token is proposed.
    pub(super) fn is_bare(&self) -> bool {
        self.proof.is_none() && self.token == Fence::NONE
    }

    /// Asks for the name by that command.
    pub(super) fn take(&self, dialect: &Dialect, out: &mut Vec<u8>) {
        match dialect.wire {
            Wire::Redisson => dialect.restore(self.term, out),
            Wire::Redlock => dialect.set(self.term, out),
        }
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
        command(out, 3);
        bulk(out, b"HGET");
        bulk(out, record.as_bytes());
        bulk(out, b"stamp");
        3
    }

    /// Asks for the name, in a transaction that was begun: says by how many commands.
    pub(super) fn join(&self, dialect: &Dialect, out: &mut Vec<u8>) -> usize {
        self.take(dialect, out);
        if self.token == Fence::NONE {
            return 1;
        }
        command(out, 6);
        bulk(out, b"ZADD");
        bulk(out, self.term.name.mark_key().as_bytes());
        bulk(out, b"GT");
        bulk(out, b"CH");
        number(out, self.token.get());
        bulk(out, b"m");
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
    replies: std::vec::IntoIter<Value>,
}

impl Outcome {
    /// Reads the reply to EXEC, or the first error of the transaction; `stamp`: under which the memory must be
    /// proven, if it must.
    pub(super) fn read(reply: Value, stamp: Option<Stamp>) -> Self {
        let failed = |why| Self { failed: Some(why), replies: Vec::new().into_iter() };
        let mut replies = match reply {
            Value::Array(items) => items.into_iter(),
            Value::Error(text) if is_for_ever(&text) => return failed(Said::Forbidden),
            _ => return failed(Said::Unclear),
        };
        let Some(stamp) = stamp else {
            return Self { failed: None, replies };
        };
        let (Some(loaded), Some(known)) = (replies.next(), replies.next()) else {
            return failed(Said::Unclear);
        };
        // The script cache does not outlive the server (H9, H10), nor the stamp its memory (H13).
        let proven = loaded == Value::Array(vec![Value::Int(1)]);
        if !proven || Stamp::parse(&known.text()) != Some(stamp) {
            return failed(Said::Unproven);
        }
        Self { failed: None, replies }
    }

    /// What the next of those who share it hears, which proposed this token.
    pub(super) fn next(&mut self, token: Fence) -> Said {
        if let Some(why) = &self.failed {
            return why.clone();
        }
        let taken = self.replies.next();
        let accepted = match token {
            Fence::NONE => Some(Value::Int(1)),
            _ => self.replies.next(),
        };
        let (Some(taken), Some(accepted)) = (taken, accepted) else { return Said::Unclear };
        match (taken, accepted) {
            // As SET says it, and as RESTORE does.
            (Value::Nil, _) => Said::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("BUSYKEY") => Said::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("ERR") => Said::Forbidden,
            (Value::Okay, Value::Int(1)) => Said::Clear(Value::Int(0)),
            // The mark is this, or larger.
            (Value::Okay, Value::Int(0)) => Said::Clear(Value::Int(token.get().cast_signed())),
            // Servers before 6.2 know no GT.
            (Value::Okay, Value::Error(text)) if text.starts_with("ERR") => Said::Forbidden,
            _ => Said::Unclear,
        }
    }
}

/// No permission (ACL), or a server without the command, or one that takes no dump of this format.
fn is_for_ever(error: &str) -> bool {
    error.starts_with("NOPERM") || error.starts_with("ERR unknown command")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: &str = "0123456789abcdef0123456789abcdef";
    const TOKEN: Fence = Fence::new(1_790_000_000_000_031);

    fn one(reply: Value, stamp: Option<Stamp>) -> Said {
        Outcome::read(reply, stamp).next(TOKEN)
    }

    fn said(set: Value, accepted: Value, edit: impl FnOnce(&mut Vec<Value>)) -> Said {
        let stamp = Value::Text(STAMP.as_bytes().to_vec());
        let mut items = vec![Value::Array(vec![Value::Int(1)]), stamp, set, accepted];
        edit(&mut items);
        one(Value::Array(items), Stamp::parse(STAMP))
    }

    #[test]
    fn a_token_is_accepted_or_behind_the_mark() {
        assert_eq!(said(Value::Okay, Value::Int(1), |_| {}), Said::Clear(Value::Int(0)));
        let behind = Value::Int(TOKEN.get().cast_signed());
        assert_eq!(said(Value::Okay, Value::Int(0), |_| {}), Said::Clear(behind));
    }

    #[test]
    fn a_refusal_is_one_only_on_a_proven_node() {
        assert_eq!(said(Value::Nil, Value::Int(1), |_| {}), Said::Clear(Value::Nil));
        let gone = |items: &mut Vec<Value>| items[0] = Value::Array(vec![Value::Int(0)]);
        assert_eq!(said(Value::Nil, Value::Int(1), gone), Said::Unproven);
        let flushed = |items: &mut Vec<Value>| items[1] = Value::Nil;
        assert_eq!(said(Value::Okay, Value::Int(1), flushed), Said::Unproven);
    }

    #[test]
    fn errors_are_for_the_script_to_name() {
        let aborted = Value::Error("EXECABORT".into());
        assert_eq!(one(aborted, Stamp::parse(STAMP)), Said::Unclear);
        let error = Value::Error("WRONGTYPE Operation against a key".into());
        assert_eq!(said(Value::Okay, error, |_| {}), Said::Unclear);
    }

    #[test]
    fn without_tokens_there_is_one_reply_each() {
        let replies = Value::Array(vec![Value::Okay, Value::Nil]);
        let mut outcome = Outcome::read(replies, None);
        assert_eq!(outcome.next(Fence::NONE), Said::Clear(Value::Int(0)));
        assert_eq!(outcome.next(Fence::NONE), Said::Clear(Value::Nil));
        assert_eq!(outcome.next(Fence::NONE), Said::Unclear);
    }

    #[test]
    fn where_no_memory_is_proven_only_the_name_and_the_mark_are_looked_at() {
        let said = |taken, accepted| one(Value::Array(vec![taken, accepted]), None);
        assert_eq!(said(Value::Okay, Value::Int(1)), Said::Clear(Value::Int(0)));
        let busy = Value::Error("BUSYKEY Target key name already exists.".into());
        assert_eq!(said(busy, Value::Int(1)), Said::Clear(Value::Nil));
    }

    #[test]
    fn what_a_server_does_not_do_for_us_is_not_asked_for_again() {
        let refused = |text: &str| one(Value::Error(text.into()), None);
        assert_eq!(refused("NOPERM this user has no permissions"), Said::Forbidden);
        assert_eq!(refused("ERR unknown command 'RESTORE'"), Said::Forbidden);
        assert_eq!(refused("OOM command not allowed"), Said::Unclear);
        let error = |text: &str| Value::Error(text.into());
        let pair = |taken, accepted| one(Value::Array(vec![taken, accepted]), None);
        let dump = error("ERR DUMP payload version or checksum are wrong");
        assert_eq!(pair(dump, Value::Int(1)), Said::Forbidden);
        assert_eq!(pair(Value::Okay, error("ERR syntax error")), Said::Forbidden);
    }
}
