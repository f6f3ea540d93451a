//! Requests to a server, and its replies as answers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant, expiry};
use tokio::sync::Notify;

use super::crowds::Crowds;
use super::debts::Debts;
use super::pulse::{Odd, Pulse};
use super::resp::Value;
use super::scripts::{Script, Scripts};
use crate::{
    Acceptance, Answer, ConfigError, Denial, Fence, Freed, Greeting, Held, Holder, InLine, Lives,
    Name, NodeProblem, NodeReport, Nonce, Proposal, ReplyTo, Silence, Spot, Stamp, Term,
    Unconfirmed, Vote, Wire, Woke,
};

/// One request and where its answer goes.
#[derive(Debug)]
pub(super) enum Request {
    Acquire {
        term: Term,
        proposal: Proposal,
        stamp: Stamp,
        /// On the heap: every request is moved about, and few stand in line.
        in_line: Option<Box<InLine>>,
        to: ReplyTo<Answer<Vote>>,
    },
    Raise {
        term: Term,
        token: Fence,
        stamp: Stamp,
        to: ReplyTo<Answer<Acceptance>>,
    },
    Recreate {
        term: Term,
        token: Fence,
        to: ReplyTo<Answer<Instant>>,
    },
    Renew {
        terms: Vec<Term>,
        to: ReplyTo<Vec<Answer<Instant>>>,
    },
    Release {
        term: Term,
        spot: Option<Spot>,
        unconfirmed: Unconfirmed,
        /// It may have been asked before: by the script, which tells those who wait in any case.
        repeat: bool,
        to: ReplyTo<Answer<Freed>>,
    },
    Inspect {
        name: Name,
        to: ReplyTo<Answer<Option<Holder>>>,
    },
    ForceRelease {
        name: Name,
        to: ReplyTo<Answer<bool>>,
    },
    /// Leaves the queue of a name, or, if not in it, wakes the next: its reply interests nobody.
    Leave(Name, bool),
    /// One of admission's scripts, sent as text.
    Office {
        command: redis::Cmd,
        to: ReplyTo<Answer<Value>>,
    },
    /// `SCRIPT LOAD` after a NOSCRIPT, or what goes ahead of a release: its reply interests nobody.
    Aside,
}

impl Request {
    /// A release that was not asked before.
    pub(super) fn release(
        term: Term,
        held: Held,
        spot: Option<Spot>,
        to: ReplyTo<Answer<Freed>>,
    ) -> Self {
        Self::Release { term, spot, unconfirmed: Unconfirmed::new(held), repeat: false, to }
    }

    /// The token that an acquisition proposes.
    pub(super) fn token(&self) -> Fence {
        match self {
            Self::Acquire { proposal, .. } => proposal.token,
            _ => Fence::NONE,
        }
    }

    /// What may have to be loaded for it.
    pub(super) fn scripts<'a>(&self, scripts: &'a Scripts) -> impl Iterator<Item = &'a Script> {
        let lean = matches!(self, Self::Release { .. }).then_some(&scripts.delete_if_ours);
        self.script(scripts).into_iter().chain(lean)
    }

    /// Whether it asks the node to vouch for something: only a node whose memory is proven may.
    pub(super) fn votes(&self) -> bool {
        match self {
            Self::Acquire { .. }
            | Self::Raise { .. }
            | Self::Renew { .. }
            | Self::Recreate { .. } => true,
            Self::Release { .. }
            | Self::Inspect { .. }
            | Self::ForceRelease { .. }
            | Self::Leave(..)
            | Self::Office { .. }
            | Self::Aside => false,
        }
    }

    /// Under what the node's memory must be verified when it is sent.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Acquire { stamp, .. } | Self::Raise { stamp, .. } => Some(*stamp),
            _ => None,
        }
    }

    /// The script that it runs.
    fn script<'a>(&self, scripts: &'a Scripts) -> Option<&'a Script> {
        Some(match self {
            Self::Acquire { .. } => &scripts.acquire,
            Self::Raise { .. } => &scripts.raise,
            Self::Renew { .. } => &scripts.renew,
            Self::Recreate { .. } => &scripts.recreate,
            Self::Release { .. } => &scripts.release,
            Self::Inspect { .. } => &scripts.inspect,
            Self::ForceRelease { .. } => &scripts.force_release,
            Self::Leave(..) => &scripts.leave,
            Self::Office { .. } | Self::Aside => return None,
        })
    }
}

/// What encoding and decoding must know of the node.
#[derive(Debug)]
pub(super) struct Dialect {
    pub(super) label: String,
    /// See [`Node::identity`](crate::Node::identity).
    pub(super) identity: AtomicU64,
    /// It has another identity than before.
    pub(super) identified: Notify,
    pub(super) wire: Wire,
    /// The bound on the node's clock rate against ours.
    pub(super) rho: f64,
    pub(super) debts: Debts,
    /// Of the server, as both connections have met it.
    pub(super) lives: Mutex<Lives>,
    pub(super) crowds: Crowds,
    /// The node has refused to be asked for a name without a script.
    pub(super) scripts_only: AtomicBool,
    pub(super) pulse: Mutex<Pulse>,
    /// By so many microseconds, all in all, was the node's clock seen to be set forward.
    pub(super) set_forward: AtomicU64,
    /// By how many microseconds the node's wall clock differs from ours; `i64::MIN` before it has told.
    pub(super) wall_offset: AtomicI64,
    pub(super) clock: Clock,
    /// The decimal id behind the colon of Redisson's field: tells people which process.
    pub(super) client_id: u64,
    /// This locker in the queues of the nodes, and at the end of its own channel: unique among all
    /// processes.
    pub(super) waiter: Nonce,
}

impl Dialect {
    /// The server behind a new connection.
    pub(super) fn identify(&self, identity: u64) {
        if self.identity.swap(identity, Ordering::Relaxed) != identity {
            self.identified.notify_one();
        }
    }

    /// Tells whoever asked what the server replied. `asked` is when the request was queued.
    pub(super) fn answer(&self, request: Request, asked: Instant, reply: Value) {
        match (&request, &reply) {
            (Request::Acquire { term, .. }, Value::Array(_)) => self.crowds.seen(&term.name),
            // Others of this process wait: its release may as well wake whoever does elsewhere.
            (Request::Acquire { term, proposal, in_line, .. }, Value::Int(_))
                if in_line.is_some() || !proposal.alone =>
            {
                self.crowds.seen(&term.name);
            }
            (Request::Release { spot: Some(Spot::Kept(_)), .. }, _) => {}
            (Request::Release { term, .. }, Value::Int(n)) if *n > 0 => {
                self.crowds.released(&term.name, woke(*n) == Woke::Waiter);
            }
            _ => {}
        }
        match request {
            Request::Acquire { term, to, .. } => to.send(match reply {
                Value::Int(mark) => {
                    let until = expiry(asked, term.ttl, self.rho);
                    Answer::Yes(Vote { until, token: acceptance(mark) })
                }
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                // Of a plain SET or RESTORE.
                Value::Okay => {
                    let until = expiry(asked, term.ttl, self.rho);
                    Answer::Yes(Vote { until, token: Acceptance::Accepted })
                }
                Value::Error(text) if text.starts_with("BUSYKEY") => Answer::No(Denial::Busy(None)),
                Value::Nil => Answer::No(Denial::Busy(None)),
                other => self.odd(&term.name, other),
            }),
            Request::Raise { term, to, .. } => to.send(match reply {
                Value::Int(mark) => Answer::Yes(acceptance(mark)),
                Value::Nil => Answer::No(Denial::Gone),
                other => self.odd(&term.name, other),
            }),
            Request::Recreate { term, to, .. } => to.send(match reply {
                Value::Int(1) => Answer::Yes(expiry(asked, term.ttl, self.rho)),
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                other => self.odd(&term.name, other),
            }),
            Request::Renew { terms, to } => to.send(match reply {
                Value::Array(mut items) if items.len() == terms.len() + 1 => {
                    self.feel(asked, items.pop());
                    terms
                        .iter()
                        .zip(items)
                        .map(|(term, item)| match item {
                            Value::Int(1) => Answer::Yes(expiry(asked, term.ttl, self.rho)),
                            Value::Int(0) => Answer::No(Denial::Gone),
                            other => self.odd(&term.name, other),
                        })
                        .collect()
                }
                other => terms.iter().map(|term| self.odd(&term.name, other.clone())).collect(),
            }),
            Request::Release { term, to, .. } => to.send(match reply {
                Value::Int(n) => Answer::Yes(Freed { held: n > 0, woke: Some(woke(n)) }),
                // A key of another type is not our hold.
                Value::Error(text) if text.contains(WRONG_TYPE) => {
                    Answer::Yes(Freed { held: false, woke: None })
                }
                other => self.odd(&term.name, other),
            }),
            Request::Inspect { name, to } => to.send(match reply {
                Value::Nil => Answer::Yes(None),
                Value::Array(items) => Answer::Yes(holder(&items)),
                other => self.odd(&name, other),
            }),
            Request::ForceRelease { name, to } => to.send(match reply {
                Value::Int(held) => Answer::Yes(held == 1),
                other => self.odd(&name, other),
            }),
            Request::Office { to, .. } => to.send(match reply {
                Value::Error(text) => {
                    Answer::No(Denial::Refused(self.report(NodeProblem::from_reply(&text))))
                }
                reply => Answer::Yes(reply),
            }),
            Request::Leave(..) | Request::Aside => {}
        }
    }

    /// What the server replied, on a connection that was greeted so, to a release that was asked
    /// before: an earlier request may have freed the lock.
    pub(super) fn answer_repeat(&self, request: Request, greeting: Greeting, reply: Value) {
        let now = self.clock.now();
        match (request, reply) {
            (Request::Release { unconfirmed, to, .. }, Value::Int(0))
                if unconfirmed.freed_it(greeting, &self.lives(), now) =>
            {
                to.send(Answer::Yes(Freed { held: true, woke: None }));
            }
            (request, reply) => self.answer(request, now, reply),
        }
    }

    pub(super) fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever asked that there is no answer. Whoever waits for a release that may have
    /// arrived waits on: it is asked again.
    pub(super) fn silent(&self, request: Request, silence: &Silence) {
        match request {
            Request::Acquire { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Raise { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Recreate { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Renew { terms, to } => {
                to.send(terms.iter().map(|_| Answer::Silent(silence.clone())).collect());
            }
            Request::Release { term, spot, unconfirmed, repeat, to } => {
                let bumps = matches!(spot, Some(Spot::Again(..)));
                let waits_on = repeat || matches!(silence, Silence::Maybe(_)) && !bumps;
                let (asks_on, told) = match waits_on {
                    true => (to, None),
                    false => (ReplyTo::nobody(), Some(to)),
                };
                self.debts.owe((term, spot, unconfirmed), asks_on, self.clock.now());
                if let Some(told) = told {
                    told.send(Answer::Silent(silence.clone()));
                }
            }
            Request::ForceRelease { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Inspect { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Office { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Leave(..) | Request::Aside => {}
        }
    }

    /// Tells whoever asked that it was asked under a stamp that is no longer the node's.
    pub(super) fn stale(&self, request: Request) {
        let report = self.report(NodeProblem::Reverified);
        self.deny(request, &Denial::Stale(report.clone()), report);
    }

    /// Tells whoever asked for a vote that the node counts for nothing now.
    pub(super) fn unproven(&self, request: Request, why: &Denial) {
        self.deny(request, why, self.report(NodeProblem::NotAdmitted));
    }

    /// A definite no to whoever asked for a vote; others hear that they were not asked.
    fn deny(&self, request: Request, denial: &Denial, report: NodeReport) {
        let no = || denial.clone();
        match request {
            Request::Acquire { to, .. } => to.send(Answer::No(no())),
            Request::Raise { to, .. } => to.send(Answer::No(no())),
            Request::Recreate { to, .. } => to.send(Answer::No(no())),
            Request::Renew { terms, to } => {
                to.send(terms.iter().map(|_| Answer::No(no())).collect());
            }
            other => self.silent(other, &Silence::Never(report)),
        }
    }

    /// Tells whoever asked that this node can never answer as it is set up.
    pub(super) fn misconfigured(&self, request: Request, error: &ConfigError) {
        let no = || Denial::Config(error.clone());
        match request {
            Request::Acquire { to, .. } => to.send(Answer::No(no())),
            Request::Raise { to, .. } => to.send(Answer::No(no())),
            Request::Recreate { to, .. } => to.send(Answer::No(no())),
            Request::Renew { terms, to } => {
                // Says nothing about leases that stand: their window decides.
                let silence = Silence::Never(self.report(NodeProblem::NotAsked(error.to_string())));
                to.send(terms.iter().map(|_| Answer::Silent(silence.clone())).collect());
            }
            Request::Release { term, spot, unconfirmed, to, .. } => {
                let owed = (term, spot, unconfirmed);
                self.debts.owe(owed, ReplyTo::nobody(), self.clock.now());
                to.send(Answer::No(no()));
            }
            Request::ForceRelease { to, .. } => to.send(Answer::No(no())),
            Request::Inspect { to, .. } => to.send(Answer::No(no())),
            Request::Office { to, .. } => to.send(Answer::No(no())),
            Request::Leave(..) | Request::Aside => {}
        }
    }

    /// The node's wall clock shows this now, or a moment ago.
    pub(super) fn compare_clocks(&self, shown: i64) {
        let offset = shown.saturating_sub_unsigned(self.clock.wall_micros());
        self.wall_offset.store(offset, Ordering::Relaxed);
    }

    /// Looks at the time that came with an answer to what was asked at `asked`.
    fn feel(&self, asked: Instant, time: Option<Value>) {
        let Some(shown) = time.as_ref().and_then(micros) else { return };
        self.compare_clocks(shown);
        let heard = self.clock.now();
        let odd = {
            let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
            pulse.beat(asked, heard, shown)
        };
        let node = &self.label;
        match odd {
            Some(Odd::Forward(by)) => {
                let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                self.set_forward.fetch_add(micros, Ordering::AcqRel);
                tracing::warn!(node, ?by, "its clock was set forward: leases there end early");
            }
            Some(Odd::Back(by)) => {
                tracing::warn!(node, ?by, "its clock was set back: leases there end late");
            }
            Some(Odd::Frozen) => {
                tracing::warn!(node, "its clock stands still: leases there never end");
            }
            None => {}
        }
    }

    pub(super) fn report(&self, problem: NodeProblem) -> NodeReport {
        NodeReport::new(self.label.clone(), problem)
    }

    /// A reply that no rule expects: an error of the server.
    fn odd<T>(&self, name: &Name, reply: Value) -> Answer<T> {
        self.refused(match reply {
            Value::Error(text) => match text.strip_prefix("NOTALOCK ") {
                Some(found) => {
                    NodeProblem::NotALock { key: name.to_string(), found: found.to_owned() }
                }
                None if text.contains(WRONG_TYPE) => {
                    NodeProblem::WrongType { key: name.to_string() }
                }
                None => NodeProblem::from_reply(&text),
            },
            other => NodeProblem::Malformed(format!("{other:?}")),
        })
    }

    fn refused<T>(&self, problem: NodeProblem) -> Answer<T> {
        Answer::No(Denial::Refused(self.report(problem)))
    }
}

const WRONG_TYPE: &str = "WRONGTYPE";

/// What accept in token.lua replies.
fn acceptance(mark: i64) -> Acceptance {
    match u64::try_from(mark).unwrap_or(0) {
        0 => Acceptance::Accepted,
        mark => Acceptance::Behind(Fence::new(mark)),
    }
}

/// The reply to TIME, in microseconds.
pub(super) fn micros(time: &Value) -> Option<i64> {
    let Value::Array(parts) = time else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |value: &Value| value.text().parse::<i64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

fn remaining(pttl: Option<&Value>) -> Option<Duration> {
    match pttl {
        Some(Value::Int(ms)) => u64::try_from(*ms).ok().map(Duration::from_millis),
        _ => None,
    }
}

fn woke(reply: i64) -> Woke {
    match reply {
        ..2 => Woke::Nobody,
        2 => Woke::Strangers,
        3.. => Woke::Waiter,
    }
}

fn holder(items: &[Value]) -> Option<Holder> {
    let [Value::Text(id), Value::Text(holds), pttl] = items else { return None };
    let holds = std::str::from_utf8(holds).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Some(Holder::new(String::from_utf8_lossy(id).into_owned(), remaining(Some(pttl)), holds))
}
