//! Requests that are not answered yet.

use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_protocol::admission::COPY_TIMES;

use crate::command::Command;
use crate::resp::Value;

/// One request that is queued or sent.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) request: Command,
    /// When the request was queued.
    pub(super) asked: Instant,
    /// Sent a second time: the server did nothing the first time (NOSCRIPT, or a demoted master).
    pub(super) resent: bool,
    /// Sent with the text of the script, after two attempts by digest.
    pub(super) as_text: bool,
    /// How often another member of the Redis Cluster did not carry it out.
    pub(super) redirects: u32,
    /// Whether `ASKING` goes before it: its slot is on its way to this member.
    pub(super) asking: bool,
    /// The position of its bytes in the batch that contains it: begin and end.
    pub(super) span: (usize, usize),
    /// The number of replies that must come besides the next one.
    more: usize,
    /// The replies so far, combined into one.
    so_far: Option<Value>,
    transaction: Transaction,
}

/// Whether a request is part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    No,
    Joined,
    /// Its last reply is the reply to EXEC.
    Ended,
}

/// For how many answer timeouts, for which a caller waits, a connection waits for a reply.
pub(crate) const STALL_TIMES: u32 = 2;

/// How much of a request was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Nothing,
    Part,
    Whole,
}

impl InFlight {
    pub(super) fn new(request: Command, asked: Instant) -> Self {
        Self {
            request,
            asked,
            resent: false,
            as_text: false,
            redirects: 0,
            asking: false,
            span: (0, 0),
            more: 0,
            so_far: None,
            transaction: Transaction::No,
        }
    }

    /// A request that another member of the Redis Cluster did not carry out. `ASKING` goes before one
    /// command only, so such a request goes by script.
    pub(super) fn redirected(request: Command, redirects: u32, asking: bool, now: Instant) -> Self {
        Self { redirects, asking, resent: asking, ..Self::new(request, now) }
    }

    /// The request for the next attempt.
    pub(super) fn once_more(self) -> Self {
        Self { resent: true, as_text: self.resent, ..self }
    }

    /// Whether marks are being copied: the request is 500 KB, which a slow machine or network passes
    /// slowly.
    pub(super) fn copies(&self, now: Instant, stall: Duration) -> bool {
        self.request.copies_marks() && now.since(self.asked) < stall * (COPY_TIMES / STALL_TIMES)
    }

    /// How much of the request is among the first `written` bytes of its batch.
    pub(super) fn extent(&self, written: usize) -> Extent {
        match self.span {
            (begins, _) if begins >= written => Extent::Nothing,
            (_, ends) if ends > written => Extent::Part,
            _ => Extent::Whole,
        }
    }

    /// Sets the number of replies that make up the answer.
    pub(super) fn expect(&mut self, replies: usize, transaction: Transaction) {
        (self.more, self.transaction) = (replies - 1, transaction);
    }

    /// Adds the reply to EXEC, which decides all acquisitions in the transaction.
    pub(super) fn ends_transaction(&mut self) {
        (self.more, self.transaction) = (self.more + 1, Transaction::Ended);
    }

    pub(super) fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// Whether the request consists of several commands, with a reply each.
    pub(super) fn several(&self) -> bool {
        self.more > 0 || self.so_far.is_some()
    }

    /// Takes the next reply. Returns the combined reply if it was the last one.
    pub(super) fn on_reply(&mut self, reply: Value) -> Option<Value> {
        let acquires = matches!(self.request, Command::Acquire { .. });
        // A transaction: the last reply, or the first error, which says why there is no other.
        // A release by the server's own commands: whether the nonce held the name, how many
        // subscribers were notified, whether the queue has a waiter. The combined reply is that of
        // release.lua, or -1: the name was not held by this nonce, and the queue has a waiter.
        let so_far = match (self.so_far.take(), reply) {
            (None, reply) => reply,
            (Some(error @ Value::Error(_)), _) if acquires => error,
            (Some(_), reply) if acquires => reply,
            (Some(Value::Int(1)), Value::Int(told)) if self.more > 0 => Value::Int(1 + told.min(1)),
            (Some(Value::Int(1..)), Value::Int(1)) => Value::Int(3),
            (Some(Value::Int(0)), Value::Int(1)) if self.more == 0 => Value::Int(-1),
            (Some(first), _) => first,
        };
        if self.more == 0 {
            return Some(so_far);
        }
        self.more -= 1;
        self.so_far = Some(so_far);
        None
    }
}
