//! A grant or a renewal counts once enough replicas have it: WAIT, one behind each batch.
//!
//! WAIT counts the writes of its own connection and blocks that connection until the replicas have
//! them or the time is over, so it goes behind the scripts on the same one, and the next batch is
//! written when it has been answered (<https://redis.io/docs/latest/commands/wait/>). It makes a
//! loss at a failover less likely; whoever is promoted may still lack what another acknowledged
//! (SAFETY.md H12).

use std::time::Duration;

use super::pending::Pending;
use super::request::Request;
use super::resp::{Value, bulk, command, number};

/// How many replicas, and for how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    replicas: usize,
    timeout: Duration,
}

/// What waits for the replicas, of one connection.
#[derive(Debug)]
pub(super) struct Acks {
    wanted: Option<Wanted>,
    waiting: bool,
    kept_back: Vec<(Pending, Value)>,
}

/// What came of one WAIT.
pub(super) struct Judged {
    pub(super) enough: bool,
    /// What was kept back, and what is to be told now.
    pub(super) answers: Vec<(Pending, Value)>,
}

impl Wanted {
    /// `None`: nobody is waited for.
    pub(super) fn new(replicas: usize, timeout: Duration) -> Option<Self> {
        (replicas > 0).then_some(Self { replicas, timeout })
    }
}

impl Acks {
    pub(super) fn new(wanted: Option<Wanted>) -> Self {
        Self { wanted, waiting: false, kept_back: Vec::new() }
    }

    /// Whether a WAIT is to be answered: nothing else may be written until then.
    pub(super) fn waiting(&self) -> bool {
        self.waiting
    }

    /// Appends a WAIT to the bytes of `batch`, if anything in it is for the replicas.
    pub(super) fn follow<'a>(
        &mut self,
        mut batch: impl Iterator<Item = &'a Pending>,
        out: &mut Vec<u8>,
    ) {
        let Some(wanted) = self.wanted else { return };
        if batch.any(|pending| promises(&pending.request)) {
            command(out, 3);
            bulk(out, b"WAIT");
            number(out, wanted.replicas as u64);
            number(out, wanted.timeout.as_micros().div_ceil(1_000) as u64);
            self.waiting = true;
        }
    }

    /// Gives back what can be told at once; the rest, and all that is to be told after it, waits for
    /// the replicas.
    pub(super) fn keep_back(&mut self, pending: Pending, reply: Value) -> Option<(Pending, Value)> {
        let acquire = matches!(pending.request, Request::Acquire { .. });
        let denied = acquire && matches!(reply, Value::Array(_) | Value::Nil);
        if !self.waiting || !pending.request.votes() || denied {
            return Some((pending, reply));
        }
        self.kept_back.push((pending, reply));
        None
    }

    /// The reply to WAIT is here; `None` if there was none.
    pub(super) fn judge(&mut self, reply: &Value) -> Option<Judged> {
        let wanted = self.wanted.filter(|_| std::mem::take(&mut self.waiting))?;
        let mut answers = std::mem::take(&mut self.kept_back);
        let Some(why) = wanted.objection(reply) else {
            return Some(Judged { enough: true, answers });
        };
        for (pending, reply) in &mut answers {
            refuse(&pending.request, reply, &why);
        }
        Some(Judged { enough: false, answers })
    }

    /// What will never be judged.
    pub(super) fn kept_back(&mut self) -> impl Iterator<Item = Pending> {
        std::mem::take(&mut self.kept_back).into_iter().map(|(pending, _)| pending)
    }
}

impl Wanted {
    fn objection(self, reply: &Value) -> Option<String> {
        let Self { replicas, timeout } = self;
        match reply {
            Value::Int(n) if usize::try_from(*n).is_ok_and(|n| n >= replicas) => None,
            Value::Int(n) => Some(format!(
                "NOREPLICAS {n} of {replicas} replicas acknowledged it within {timeout:?}: look at \
                 the replicas"
            )),
            Value::Error(text) => Some(format!("NOREPLICAS WAIT was refused: {text}")),
            other => Some(format!("NOREPLICAS unexpected reply to WAIT: {other:?}")),
        }
    }
}

/// Whether a yes to it must outlive the master.
fn promises(request: &Request) -> bool {
    match request {
        Request::Renew { terms, .. } => !terms.is_empty(),
        request => request.votes(),
    }
}

/// A yes becomes an error: it happened at the master, and does not count. What was a no stays one.
fn refuse(request: &Request, reply: &mut Value, why: &str) {
    let one = |reply: &mut Value| *reply = Value::Error(why.to_owned());
    match (request, reply) {
        (Request::Renew { .. }, Value::Array(items)) => {
            items.iter_mut().filter(|item| **item == Value::Int(1)).for_each(one);
        }
        // The token is accepted, or not; or the reply to a plain SET.
        (
            Request::Acquire { .. } | Request::Raise { .. },
            reply @ (Value::Int(_) | Value::Okay),
        ) => {
            one(reply);
        }
        (_, reply @ Value::Int(1)) => one(reply),
        _ => {}
    }
}
