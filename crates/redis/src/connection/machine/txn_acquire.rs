//! The fast path: acquisitions by a transaction of the server's own commands, without a script. It
//! costs the server half the time of the script, and less if several acquisitions that are sent
//! together share a transaction (decision 8).
//!
//! If the replies are unclear, the caller asks by script, in a fresh round. The transaction moves
//! the mark for a refused caller, too, so a waiter polls by script (PROTOCOL.md, Tokens).

use std::sync::atomic::Ordering;

use crate::command::{Command, NodeContext};
use crate::permissions::is_forbidden;
use crate::resp::{Value, bulk, command, number};
use crate::scripts::{Proof, Script, Scripts};
use quorumlock_protocol::{FencingToken, Incarnation, Layout, LeaseRequest};

/// One acquisition of a transaction. All acquisitions of a transaction go over one connection, so
/// they need the proof of the same node's memory, under the same incarnation.
pub(super) struct TxnAcquire<'a> {
    /// Set if the memory must be proven: the key of the node's admission record, and the script
    /// that carries its incarnation.
    proof: Option<(&'a str, &'a Script)>,
    lease: &'a LeaseRequest,
    token: FencingToken,
}

/// The result of one acquisition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TxnVerdict {
    /// The reply that the script would have given.
    Clear(Value),
    /// The node must be verified again. It may hold the name all the same.
    Unproven,
    /// The caller must ask by script. The node may hold the name all the same.
    Unclear,
    /// As `Unclear`, and permanent: the server lacks a command, or refuses it or its arguments.
    Forbidden,
}

impl<'a> TxnAcquire<'a> {
    /// `Some` if the request is an acquisition that can go without a script: its caller does not
    /// enqueue, and need not learn the remaining lease of the holder.
    pub(super) fn of(
        request: &'a Command,
        context: &NodeContext,
        scripts: &'a Scripts,
    ) -> Option<Self> {
        let Command::Acquire { lease, token, hints, .. } = request else {
            return None;
        };
        let bound = scripts.bound.as_ref();
        let plain = hints.may_skip_script()
            && !lease.claim.is_read_write()
            && !context.scripts_only.load(Ordering::Relaxed)
            // The script refuses a lease that is too long, and compares what the cache does not prove.
            && bound.is_none_or(|bound| {
                context.millis_at_node(lease.ttl) <= bound.longest_ms && bound.proof == Proof::Cache
            });
        let proof = bound.map(|bound| (&*bound.record, &scripts.acquire));
        plain.then_some(Self { proof, lease, token: *token })
    }

    /// Whether one command is enough: no memory is to be proven, and no token is proposed.
    pub(super) fn is_bare(&self) -> bool {
        self.proof.is_none() && self.token == FencingToken::NONE
    }

    /// Appends the command that takes the name: `RESTORE` or `SET`.
    pub(super) fn take(&self, context: &NodeContext, out: &mut Vec<u8>) {
        match context.layout {
            Layout::Redisson => context.restore(self.lease, out),
            Layout::Redlock => context.set(self.lease, out),
        }
    }

    /// Appends the beginning of a transaction. Returns the number of commands.
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

    /// Appends this acquisition to the open transaction. Returns the number of commands.
    pub(super) fn join(&self, context: &NodeContext, out: &mut Vec<u8>) -> usize {
        self.take(context, out);
        if self.token == FencingToken::NONE {
            return 1;
        }
        command(out, 6);
        bulk(out, b"ZADD");
        bulk(out, self.lease.name().mark_key().as_bytes());
        bulk(out, b"GT");
        bulk(out, b"CH");
        number(out, self.token.get());
        bulk(out, b"m");
        2
    }

    /// Appends the end of a transaction.
    pub(super) fn end(out: &mut Vec<u8>) {
        command(out, 1);
        bulk(out, b"EXEC");
    }
}

/// The results of a transaction, one for each acquisition, in their order.
pub(super) struct TxnReplies {
    /// Set if the whole transaction failed.
    failed: Option<TxnVerdict>,
    replies: std::vec::IntoIter<Value>,
}

impl TxnReplies {
    /// Reads the reply to EXEC, or the first error of the transaction. `expected` is the
    /// incarnation that the node must prove; `None` without admission.
    pub(super) fn read(reply: Value, expected: Option<Incarnation>) -> Self {
        let failed = |why| Self { failed: Some(why), replies: Vec::new().into_iter() };
        let mut replies = match reply {
            Value::Array(items) => items.into_iter(),
            Value::Error(text) if is_forbidden(&text) => return failed(TxnVerdict::Forbidden),
            _ => return failed(TxnVerdict::Unclear),
        };
        let Some(expected) = expected else {
            return Self { failed: None, replies };
        };
        let (Some(loaded), Some(known)) = (replies.next(), replies.next()) else {
            return failed(TxnVerdict::Unclear);
        };
        // The script cache does not outlive the server (H9, H10), nor the record its memory (H13).
        let proven = loaded == Value::Array(vec![Value::Int(1)]);
        if !proven || Incarnation::parse(&known.text()) != Some(expected) {
            return failed(TxnVerdict::Unproven);
        }
        Self { failed: None, replies }
    }

    /// The result of the next acquisition, which proposed this token.
    pub(super) fn next(&mut self, token: FencingToken) -> TxnVerdict {
        if let Some(why) = &self.failed {
            return why.clone();
        }
        let taken = self.replies.next();
        let accepted = match token {
            FencingToken::NONE => Some(Value::Int(1)),
            _ => self.replies.next(),
        };
        let (Some(taken), Some(accepted)) = (taken, accepted) else { return TxnVerdict::Unclear };
        match (taken, accepted) {
            // SET replies nil if the name is held, RESTORE replies BUSYKEY.
            (Value::Nil, _) => TxnVerdict::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("BUSYKEY") => TxnVerdict::Clear(Value::Nil),
            (Value::Error(text), _) if text.starts_with("ERR") => TxnVerdict::Forbidden,
            (Value::Okay, Value::Int(1)) => TxnVerdict::Clear(Value::Int(0)),
            // The mark equals this token, or is above it.
            (Value::Okay, Value::Int(0)) => {
                TxnVerdict::Clear(Value::Int(token.get().cast_signed()))
            }
            // Servers before 6.2 do not know GT.
            (Value::Okay, Value::Error(text)) if text.starts_with("ERR") => TxnVerdict::Forbidden,
            _ => TxnVerdict::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INCARNATION: &str = "0123456789abcdef0123456789abcdef";
    const TOKEN: FencingToken = FencingToken::new(1_790_000_000_000_031);

    fn one(reply: Value, expected: Option<Incarnation>) -> TxnVerdict {
        TxnReplies::read(reply, expected).next(TOKEN)
    }

    fn verdict(set: Value, accepted: Value, edit: impl FnOnce(&mut Vec<Value>)) -> TxnVerdict {
        let stamp = Value::Text(INCARNATION.as_bytes().to_vec());
        let mut items = vec![Value::Array(vec![Value::Int(1)]), stamp, set, accepted];
        edit(&mut items);
        one(Value::Array(items), Incarnation::parse(INCARNATION))
    }

    #[test]
    fn a_token_is_accepted_or_behind_the_mark() {
        assert_eq!(verdict(Value::Okay, Value::Int(1), |_| {}), TxnVerdict::Clear(Value::Int(0)));
        let behind = Value::Int(TOKEN.get().cast_signed());
        assert_eq!(verdict(Value::Okay, Value::Int(0), |_| {}), TxnVerdict::Clear(behind));
    }

    #[test]
    fn a_refusal_is_one_only_on_a_proven_node() {
        assert_eq!(verdict(Value::Nil, Value::Int(1), |_| {}), TxnVerdict::Clear(Value::Nil));
        let gone = |items: &mut Vec<Value>| items[0] = Value::Array(vec![Value::Int(0)]);
        assert_eq!(verdict(Value::Nil, Value::Int(1), gone), TxnVerdict::Unproven);
        let flushed = |items: &mut Vec<Value>| items[1] = Value::Nil;
        assert_eq!(verdict(Value::Okay, Value::Int(1), flushed), TxnVerdict::Unproven);
    }

    #[test]
    fn errors_are_for_the_script_to_name() {
        let aborted = Value::Error("EXECABORT".into());
        assert_eq!(one(aborted, Incarnation::parse(INCARNATION)), TxnVerdict::Unclear);
        let error = Value::Error("WRONGTYPE Operation against a key".into());
        assert_eq!(verdict(Value::Okay, error, |_| {}), TxnVerdict::Unclear);
    }

    #[test]
    fn without_tokens_there_is_one_reply_each() {
        let replies = Value::Array(vec![Value::Okay, Value::Nil]);
        let mut outcome = TxnReplies::read(replies, None);
        assert_eq!(outcome.next(FencingToken::NONE), TxnVerdict::Clear(Value::Int(0)));
        assert_eq!(outcome.next(FencingToken::NONE), TxnVerdict::Clear(Value::Nil));
        assert_eq!(outcome.next(FencingToken::NONE), TxnVerdict::Unclear);
    }

    #[test]
    fn where_no_memory_is_proven_only_the_name_and_the_mark_are_looked_at() {
        let said = |taken, accepted| one(Value::Array(vec![taken, accepted]), None);
        assert_eq!(said(Value::Okay, Value::Int(1)), TxnVerdict::Clear(Value::Int(0)));
        let busy = Value::Error("BUSYKEY Target key name already exists.".into());
        assert_eq!(said(busy, Value::Int(1)), TxnVerdict::Clear(Value::Nil));
    }

    #[test]
    fn what_a_server_does_not_do_for_us_is_not_asked_for_again() {
        let refused = |text: &str| one(Value::Error(text.into()), None);
        assert_eq!(refused("NOPERM this user has no permissions"), TxnVerdict::Forbidden);
        assert_eq!(refused("ERR unknown command 'RESTORE'"), TxnVerdict::Forbidden);
        assert_eq!(refused("OOM command not allowed"), TxnVerdict::Unclear);
        let error = |text: &str| Value::Error(text.into());
        let pair = |taken, accepted| one(Value::Array(vec![taken, accepted]), None);
        let dump = error("ERR DUMP payload version or checksum are wrong");
        assert_eq!(pair(dump, Value::Int(1)), TxnVerdict::Forbidden);
        assert_eq!(pair(Value::Okay, error("ERR syntax error")), TxnVerdict::Forbidden);
    }
}
