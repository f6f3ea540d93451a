//! What was asked and is not answered yet.

use quorumlock_watchdog::Instant;

use super::request::Request;
use super::resp::Value;

/// One request that is queued or sent.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) asked: Instant,
    /// Sent a second time, after a NOSCRIPT.
    pub(super) again: bool,
    /// Sent with the script's text: its digest was unknown twice.
    pub(super) as_text: bool,
    /// Where its bytes begin and end in what is written at once.
    pub(super) span: (usize, usize),
    /// Of several replies: those that are not here yet, and what the others come to.
    more: usize,
    first: Option<Value>,
    /// One of them is the reply to EXEC.
    ends: bool,
}

/// How much of a request was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Nothing,
    Part,
    Whole,
}

impl Pending {
    pub(super) fn new(request: Request, asked: Instant) -> Self {
        let (again, as_text, span) = (false, false, (0, 0));
        Self { request, asked, again, as_text, span, more: 0, first: None, ends: false }
    }

    pub(super) fn once_more(self) -> Self {
        Self { again: true, as_text: self.again, ..self }
    }

    /// How much of it is among the first `written` bytes.
    pub(super) fn extent(&self, written: usize) -> Extent {
        match self.span {
            (begins, _) if begins >= written => Extent::Nothing,
            (_, ends) if ends > written => Extent::Part,
            _ => Extent::Whole,
        }
    }

    /// So many replies will make it up.
    pub(super) fn expect(&mut self, replies: usize) {
        (self.more, self.ends) = (replies - 1, false);
    }

    /// The reply to EXEC will come after those, for it and for all that share the transaction.
    pub(super) fn ends_transaction(&mut self) {
        (self.more, self.ends) = (self.more + 1, true);
    }

    /// Whether its last reply was for all that share the transaction.
    pub(super) fn ended_transaction(&self) -> bool {
        self.ends
    }

    /// Whether several commands, and replies, make it up.
    pub(super) fn several(&self) -> bool {
        self.more > 0 || self.first.is_some()
    }

    /// The answer, if this reply is the last that belongs to it.
    pub(super) fn hear(&mut self, reply: Value) -> Option<Value> {
        let acquires = matches!(self.request, Request::Acquire { .. });
        // Of a transaction: the last reply, or the first error, which says why there is no other.
        // Of a release by the server's own commands: whether it was held, how many were told, whether
        // anybody is in the queue. Together they are what release.lua replies, or -1: it was not
        // held, and somebody waits.
        let so_far = match (self.first.take(), reply) {
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
        self.first = Some(so_far);
        None
    }
}
