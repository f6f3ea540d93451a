//! Requests to a server as bytes, and its replies as answers.

use std::io::Write;
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant, expiry};

use super::debts::Debts;
use super::resp::{Value, bulk, command, number};
use super::scripts::{Script, Scripts};
use crate::{
    Answer, ConfigError, Counter, Denial, Fence, Freed, Holder, Name, NodeReport, ReplyTo, Silence,
    Stamp, Term, Vote, Wire,
};

/// One request and where its answer goes.
#[derive(Debug)]
pub(super) enum Request {
    Acquire {
        term: Term,
        counter: Counter,
        stamp: Stamp,
        to: ReplyTo<Answer<Vote>>,
    },
    Raise {
        term: Term,
        fence: Fence,
        stamp: Stamp,
        to: ReplyTo<Answer<()>>,
    },
    Recreate {
        term: Term,
        fence: Fence,
        to: ReplyTo<Answer<Instant>>,
    },
    Renew {
        terms: Vec<Term>,
        to: ReplyTo<Vec<Answer<Instant>>>,
    },
    Release {
        term: Term,
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
    /// One of admission's scripts, sent as text.
    Office {
        command: redis::Cmd,
        to: ReplyTo<Answer<Value>>,
    },
    /// `SCRIPT LOAD` after a NOSCRIPT: its reply interests nobody.
    Load,
}

impl Request {
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
            | Self::Office { .. }
            | Self::Load => false,
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
    pub(super) fn script<'a>(&self, scripts: &'a Scripts) -> Option<&'a Script> {
        Some(match self {
            Self::Acquire { .. } => &scripts.acquire,
            Self::Raise { .. } => &scripts.raise,
            Self::Renew { .. } => &scripts.renew,
            Self::Recreate { .. } => &scripts.recreate,
            Self::Release { .. } => &scripts.release,
            Self::Inspect { .. } => &scripts.inspect,
            Self::ForceRelease { .. } => &scripts.force_release,
            Self::Office { .. } | Self::Load => return None,
        })
    }
}

/// What encoding and decoding must know of the node.
#[derive(Debug)]
pub(super) struct Dialect {
    pub(super) label: String,
    pub(super) wire: Wire,
    /// The bound on the node's clock rate against ours.
    pub(super) rho: f64,
    /// How long idle fencing counters are kept.
    pub(super) fence_ttl: Duration,
    pub(super) debts: Debts,
    pub(super) clock: Clock,
    /// The decimal id behind the colon of Redisson's field: tells people which process.
    pub(super) client_id: u64,
}

impl Dialect {
    /// Appends the request as a command.
    pub(super) fn encode(&self, request: &Request, scripts: &Scripts, out: &mut Vec<u8>) {
        let keep = millis(self.fence_ttl);
        match request {
            Request::Acquire { term, counter, .. } => {
                eval(out, &scripts.acquire, 2, 7);
                self.name_and_token(&term.name, out);
                self.held_by(term, out);
                number(out, counter.least.get());
                number(out, counter.seed);
                number(out, keep);
                number(out, counter.tokens);
            }
            Request::Recreate { term, fence, .. } => {
                eval(out, &scripts.recreate, 2, 5);
                self.name_and_token(&term.name, out);
                self.held_by(term, out);
                number(out, fence.get());
                number(out, keep);
            }
            Request::Raise { term, fence, .. } => {
                eval(out, &scripts.raise, 2, 3);
                self.name_and_token(&term.name, out);
                self.nonce(term, out);
                number(out, fence.get());
                number(out, keep);
            }
            Request::Renew { terms, .. } => {
                eval(out, &scripts.renew, terms.len(), 3 * terms.len());
                for term in terms {
                    bulk(out, term.name.as_str().as_bytes());
                }
                for term in terms {
                    self.held_by(term, out);
                }
            }
            Request::Release { term, .. } => {
                eval(out, &scripts.release, 2, 1);
                bulk(out, term.name.as_str().as_bytes());
                bulk(out, term.name.channel().as_bytes());
                self.nonce(term, out);
            }
            Request::Inspect { name, .. } => {
                eval(out, &scripts.inspect, 1, 0);
                bulk(out, name.as_str().as_bytes());
            }
            Request::ForceRelease { name, .. } => {
                eval(out, &scripts.force_release, 3, 0);
                self.name_and_token(name, out);
                bulk(out, name.channel().as_bytes());
            }
            Request::Office { command, .. } => {
                out.extend_from_slice(&command.get_packed_command());
            }
            Request::Load => {}
        }
    }

    /// Tells whoever asked what the server replied. `asked` is when the request was queued.
    pub(super) fn answer(&self, request: Request, asked: Instant, reply: Value) {
        match request {
            Request::Acquire { term, to, .. } => to.send(match reply {
                Value::Int(token) => Answer::Yes(Vote {
                    until: expiry(asked, term.ttl, self.rho),
                    fence: Fence::new(u64::try_from(token).unwrap_or(0)),
                }),
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                other => self.odd(&term.name, other),
            }),
            Request::Raise { term, to, .. } => to.send(match reply {
                Value::Int(1) => Answer::Yes(()),
                Value::Int(_) => Answer::No(Denial::Gone),
                other => self.odd(&term.name, other),
            }),
            Request::Recreate { term, to, .. } => to.send(match reply {
                Value::Int(1) => Answer::Yes(expiry(asked, term.ttl, self.rho)),
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                other => self.odd(&term.name, other),
            }),
            Request::Renew { terms, to } => to.send(match reply {
                Value::Array(items) if items.len() == terms.len() => terms
                    .iter()
                    .zip(items)
                    .map(|(term, item)| match item {
                        Value::Int(1) => Answer::Yes(expiry(asked, term.ttl, self.rho)),
                        Value::Int(0) => Answer::No(Denial::Gone),
                        other => self.odd(&term.name, other),
                    })
                    .collect(),
                other => terms.iter().map(|term| self.odd(&term.name, other.clone())).collect(),
            }),
            Request::Release { term, to } => to.send(match reply {
                Value::Int(n) => {
                    Answer::Yes(Freed { held: n > 0, waiting: u64::try_from(n - 1).unwrap_or(0) })
                }
                // A key of another type is not our hold.
                Value::Error(text) if text.contains(WRONG_TYPE) => {
                    Answer::Yes(Freed { held: false, waiting: 0 })
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
                    Answer::No(Denial::Refused(self.report(format!("refused: {text}"))))
                }
                reply => Answer::Yes(reply),
            }),
            Request::Load => {}
        }
    }

    /// Tells whoever asked that there is no answer.
    pub(super) fn silent(&self, request: Request, silence: &Silence) {
        match request {
            Request::Acquire { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Raise { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Recreate { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Renew { terms, to } => {
                to.send(terms.iter().map(|_| Answer::Silent(silence.clone())).collect());
            }
            Request::Release { term, to } => {
                self.debts.owe(term, self.clock.now());
                to.send(Answer::Silent(silence.clone()));
            }
            Request::ForceRelease { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Inspect { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Office { to, .. } => to.send(Answer::Silent(silence.clone())),
            Request::Load => {}
        }
    }

    /// Tells whoever asked that it was asked under a stamp that is no longer the node's.
    pub(super) fn stale(&self, request: Request) {
        let report = self.report("its memory must be verified again");
        self.deny(request, &Denial::Stale(report.clone()), report);
    }

    /// Tells whoever asked for a vote that the node counts for nothing now.
    pub(super) fn unproven(&self, request: Request, why: &Denial) {
        self.deny(request, why, self.report("was not asked: its memory is not proven"));
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
                let silence = Silence::Never(self.report(error.to_string()));
                to.send(terms.iter().map(|_| Answer::Silent(silence.clone())).collect());
            }
            Request::Release { term, to } => {
                self.debts.owe(term, self.clock.now());
                to.send(Answer::No(no()));
            }
            Request::ForceRelease { to, .. } => to.send(Answer::No(no())),
            Request::Inspect { to, .. } => to.send(Answer::No(no())),
            Request::Office { to, .. } => to.send(Answer::No(no())),
            Request::Load => {}
        }
    }

    pub(super) fn report(&self, what: impl Into<String>) -> NodeReport {
        NodeReport::new(self.label.clone(), what)
    }

    fn name_and_token(&self, name: &Name, out: &mut Vec<u8>) {
        bulk(out, name.as_str().as_bytes());
        bulk(out, name.token_key().as_bytes());
    }

    fn held_by(&self, term: &Term, out: &mut Vec<u8>) {
        self.nonce(term, out);
        number(out, millis(term.ttl));
        number(out, term.holds.into());
    }

    fn nonce(&self, term: &Term, out: &mut Vec<u8>) {
        let mut text = [0; 64];
        let mut rest = &mut text[..];
        // Fits: 36 + 1 + 20 bytes at most.
        let written = match self.wire {
            Wire::Redisson => write!(rest, "{}:{}", term.nonce.hyphenated(), self.client_id),
            Wire::Redlock => write!(rest, "{}", term.nonce),
        };
        debug_assert!(written.is_ok());
        let left = rest.len();
        bulk(out, &text[..text.len() - left]);
    }

    /// A reply that no rule expects: an error of the server.
    fn odd<T>(&self, name: &Name, reply: Value) -> Answer<T> {
        Answer::No(match reply {
            Value::Error(text) if text.contains(WRONG_TYPE) => {
                Denial::Config(ConfigError::OtherWire {
                    name: name.clone(),
                    node: self.label.clone(),
                })
            }
            Value::Error(text) => Denial::Refused(self.report(format!("refused: {text}"))),
            other => Denial::Refused(self.report(format!("unexpected reply {other:?}"))),
        })
    }
}

const WRONG_TYPE: &str = "WRONGTYPE";

fn eval(out: &mut Vec<u8>, script: &Script, keys: usize, args: usize) {
    command(out, 3 + keys + args);
    bulk(out, b"EVALSHA");
    bulk(out, script.digest.as_bytes());
    number(out, keys as u64);
}

/// Whole milliseconds, rounded up: the node may hold longer than we believe, never shorter.
fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn remaining(pttl: Option<&Value>) -> Option<Duration> {
    match pttl {
        Some(Value::Int(ms)) => u64::try_from(*ms).ok().map(Duration::from_millis),
        _ => None,
    }
}

fn holder(items: &[Value]) -> Option<Holder> {
    let [Value::Text(id), Value::Text(holds), pttl] = items else { return None };
    let holds = std::str::from_utf8(holds).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Some(Holder::new(String::from_utf8_lossy(id).into_owned(), remaining(Some(pttl)), holds))
}
