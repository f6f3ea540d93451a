//! A grant or a renewal counts once enough replicas have it: one `WAIT` behind each batch. Or once the
//! disks of the master and of so many replicas have it: `WAITAOF`.
//!
//! `WAIT` counts the writes of its own connection, and blocks that connection until the replicas
//! have them or the time is over. So it goes behind the scripts on the same connection, and the
//! driver writes the next batch when it has the reply
//! (<https://redis.io/docs/latest/commands/wait/>). `WAIT` makes a loss at a failover less likely;
//! a promoted replica may still lack what another replica acknowledged (SAFETY.md H12, PROTOCOL.md
//! REP1, REP2).

use std::time::Duration;

use quorumlock_protocol::Settings;

use super::in_flight::InFlight;
use crate::command::Command;
use crate::resp::{Value, bulk, command, number};

/// How many replicas must acknowledge, and how long a `WAIT` waits for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckPolicy {
    replicas: usize,
    /// Whether all replicas must that the master has when a connection begins.
    all: bool,
    /// Whether the disks must have it, the master's and the replicas'.
    durable: bool,
    timeout: Duration,
}

/// The replies of one connection that wait for the replicas.
#[derive(Debug)]
pub(super) struct ReplicaAcks {
    policy: Option<AckPolicy>,
    waiting: bool,
    withheld: Vec<(InFlight, Value)>,
}

/// The result of one `WAIT`.
pub(super) struct AckResult {
    pub(super) enough: bool,
    /// The requests that were kept back, with the replies that count now.
    pub(super) answers: Vec<(InFlight, Value)>,
}

impl AckPolicy {
    /// `None` if nothing must be acknowledged.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let (replicas, all, durable) = (settings.replicas, settings.all_replicas, settings.durable);
        let policy = Self { replicas, all, durable, timeout: settings.replica_timeout() };
        settings.awaits_copies().then_some(policy)
    }

    /// The policy on a connection to a master that has so many replicas.
    fn of(self, connected: usize) -> Self {
        Self { replicas: if self.all { connected } else { self.replicas }, ..self }
    }
}

impl ReplicaAcks {
    /// `connected`: how many replicas the master has.
    pub(super) fn new(policy: Option<AckPolicy>, connected: usize) -> Self {
        Self {
            policy: policy.map(|policy| policy.of(connected)),
            waiting: false,
            withheld: Vec::new(),
        }
    }

    /// Whether a `WAIT` is unanswered: the driver must write nothing else until then.
    pub(super) fn waiting(&self) -> bool {
        self.waiting
    }

    /// Appends a `WAIT` to the bytes of `batch` if a request in it must reach the replicas.
    pub(super) fn follow<'a>(
        &mut self,
        mut batch: impl Iterator<Item = &'a InFlight>,
        out: &mut Vec<u8>,
    ) {
        let Some(policy) = self.policy else { return };
        if batch.any(|pending| must_reach_replicas(&pending.request)) {
            if policy.durable {
                command(out, 4);
                bulk(out, b"WAITAOF");
                number(out, 1);
            } else {
                command(out, 3);
                bulk(out, b"WAIT");
            }
            number(out, policy.replicas as u64);
            number(out, policy.timeout.as_micros().div_ceil(1_000) as u64);
            self.waiting = true;
        }
    }

    /// Keeps the reply to a vote back while a `WAIT` is unanswered. Returns any other reply at
    /// once, also the refusal of an acquisition.
    pub(super) fn withhold(
        &mut self,
        pending: InFlight,
        reply: Value,
    ) -> Option<(InFlight, Value)> {
        let acquire = matches!(pending.request, Command::Acquire { .. });
        let denied = acquire && matches!(reply, Value::Array(_) | Value::Nil);
        if !self.waiting || !pending.request.votes() || denied {
            return Some((pending, reply));
        }
        self.withheld.push((pending, reply));
        None
    }

    /// Handles the reply to `WAIT`; `None` if no `WAIT` was unanswered.
    pub(super) fn judge(&mut self, reply: &Value) -> Option<AckResult> {
        let policy = self.policy.filter(|_| std::mem::take(&mut self.waiting))?;
        let mut answers = std::mem::take(&mut self.withheld);
        let Some(why) = policy.failure(reply) else {
            return Some(AckResult { enough: true, answers });
        };
        for (pending, reply) in &mut answers {
            refuse(&pending.request, reply, &why);
        }
        Some(AckResult { enough: false, answers })
    }

    /// Takes the requests that were kept back: the connection ends before the reply to `WAIT`.
    pub(super) fn withheld(&mut self) -> impl Iterator<Item = InFlight> {
        std::mem::take(&mut self.withheld).into_iter().map(|(pending, _)| pending)
    }
}

impl AckPolicy {
    fn failure(self, reply: &Value) -> Option<String> {
        let Self { replicas, durable, timeout, .. } = self;
        match reply {
            Value::Array(disks) if durable => match disks[..] {
                [Value::Int(0), _] => {
                    Some(format!("NOTDURABLE its disk did not have it within {timeout:?}"))
                }
                [Value::Int(_), Value::Int(n)] => {
                    Self { durable: false, ..self }.failure(&Value::Int(n))
                }
                _ => Some(format!("NOTDURABLE unexpected reply to WAITAOF: {disks:?}")),
            },
            Value::Error(text) if durable => {
                Some(format!("NOTDURABLE WAITAOF was refused: {text}"))
            }
            Value::Int(_) if durable => {
                Some(format!("NOTDURABLE unexpected reply to WAITAOF: {reply:?}"))
            }
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

/// Whether a yes to the request must outlive the master.
fn must_reach_replicas(request: &Command) -> bool {
    match request {
        Command::Renew { leases, .. } => !leases.is_empty(),
        request => request.votes(),
    }
}

/// Turns a yes into an error: the master carried it out, but it does not count. A no stays a no.
fn refuse(request: &Command, reply: &mut Value, why: &str) {
    let one = |reply: &mut Value| *reply = Value::Error(why.to_owned());
    match (request, reply) {
        (Command::Renew { .. }, Value::Array(items)) => {
            items.iter_mut().filter(|item| **item == Value::Int(1)).for_each(one);
        }
        // Granted, with the token accepted or not; `Okay` is the reply to a bare SET.
        (
            Command::Acquire { .. } | Command::Raise { .. },
            reply @ (Value::Int(_) | Value::Okay),
        ) => {
            one(reply);
        }
        (_, reply @ Value::Int(1)) => one(reply),
        _ => {}
    }
}
