//! Requests, what nodes reply, and what the client's code is told: as the real line translates.

use std::time::Duration;

use quorumlock_core::admission::{Marks, Sheet};
use quorumlock_core::{
    Acceptance, Answer, Denial, Fence, Freed, Held as HeldFor, Holder, InLine, Instant, Name,
    NodeProblem, NodeReport, Proposal, ReplyTo, Silence, Spot, Stamp, Term, Unconfirmed, Vote,
    Wire,
};
use quorumlock_watchdog::expiry;

use super::store::{Held, Raised, Taken};
use super::time::micros;

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire(Term, Proposal, Stamp, Option<InLine>),
    Raise(Term, Fence, Stamp),
    Recreate(Term, Fence),
    Renew(Vec<Term>),
    /// What is given back, and what is asked with that; and what becomes of the place in the queue.
    Release(Vec<Term>, Option<Spot>, Asked),
    Inspect(Name),
    ForceRelease(Name),
    Leave(Name),
    Office(Office),
}

/// A release, as the real line keeps it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) unconfirmed: Unconfirmed,
    /// It may have been asked before.
    pub(super) repeat: bool,
}

/// One of admission's own requests.
#[derive(Clone, Debug)]
pub(super) enum Office {
    Examine,
    Note(String),
    Barrier(String),
    Admit { note: String, stamp: String, marks: Marks },
    Provision { stamp: String, replace: bool },
}

/// What one of admission's requests is answered.
#[derive(Clone, Debug)]
pub(super) enum Filed {
    Sheet(Box<Sheet>),
    Marks(Marks),
    Number(u64),
}

/// Where the answer goes.
#[derive(Debug)]
pub(super) enum To {
    Vote(ReplyTo<Answer<Vote>>),
    Raised(ReplyTo<Answer<Acceptance>>),
    One(ReplyTo<Answer<Instant>>),
    Until(ReplyTo<Vec<Answer<Instant>>>),
    Freed(ReplyTo<Answer<Freed>>),
    Holder(ReplyTo<Answer<Option<Holder>>>),
    Forced(ReplyTo<Answer<bool>>),
    Filed(ReplyTo<Answer<Filed>>),
}

/// What the script returned.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Taken(Taken),
    Raised(Raised),
    /// The remaining milliseconds of another, if it holds the name.
    Recreated(Option<u64>),
    Renewed(Vec<bool>),
    Freed(Freed),
    Holder(Option<(Held, u64)>),
    Forced(bool),
    Filed(Filed),
    WrongType,
    /// NOSCRIPT, UNPROVEN: verify again before anything else is asked.
    Unproven,
    /// TOOLONG: the lease is longer than L.
    TooLong,
}

/// An answer, ready to be delivered.
#[derive(Debug)]
pub(super) enum Told {
    Vote(ReplyTo<Answer<Vote>>, Answer<Vote>),
    Raised(ReplyTo<Answer<Acceptance>>, Answer<Acceptance>),
    One(ReplyTo<Answer<Instant>>, Answer<Instant>),
    Until(ReplyTo<Vec<Answer<Instant>>>, Vec<Answer<Instant>>),
    Freed(ReplyTo<Answer<Freed>>, Answer<Freed>),
    Holder(ReplyTo<Answer<Option<Holder>>>, Answer<Option<Holder>>),
    Forced(ReplyTo<Answer<bool>>, Answer<bool>),
    Filed(ReplyTo<Answer<Filed>>, Answer<Filed>),
}

/// What translating needs beside the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// When the request was posted, on the client's clock.
    pub(super) asked: Instant,
    pub(super) rho: f64,
    pub(super) label: &'a str,
}

impl Ask {
    pub(super) fn release(term: &Term, held: HeldFor, spot: Option<Spot>) -> Self {
        let mut terms = vec![term.clone()];
        if let Some(Spot::Again(nonce, _)) = spot {
            terms.push(Term { nonce, ..term.clone() });
        }
        let asked = Asked { unconfirmed: Unconfirmed::new(held), repeat: false };
        Self::Release(terms, spot, asked)
    }

    pub(super) fn terms(&self) -> &[Term] {
        match self {
            Self::Acquire(term, ..) | Self::Raise(term, ..) | Self::Recreate(term, _) => {
                std::slice::from_ref(term)
            }
            Self::Renew(terms) | Self::Release(terms, ..) => terms,
            Self::Inspect(_) | Self::ForceRelease(_) | Self::Leave(_) | Self::Office(_) => &[],
        }
    }

    /// Whether it asks the node to vouch for something: only one whose memory is proven may.
    pub(super) fn votes(&self) -> bool {
        matches!(self, Self::Acquire(..) | Self::Raise(..) | Self::Recreate(..) | Self::Renew(_))
    }

    /// Under what the node's memory must be verified when it is sent.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Acquire(.., stamp, _) | Self::Raise(.., stamp) => Some(*stamp),
            _ => None,
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Acquire(..) => "acquire",
            Self::Raise(..) => "raise",
            Self::Renew(_) => "renew",
            Self::Release(..) => "release",
            Self::Inspect(_) => "inspect",
            Self::ForceRelease(_) => "force_release",
            Self::Leave(_) => "leave",
            Self::Recreate(..) => "recreate",
            Self::Office(_) => "office",
        }
    }
}

impl To {
    /// There is no answer.
    pub(super) fn silent(self, ask: &Ask, silence: Silence) -> Told {
        match self {
            Self::Vote(to) => Told::Vote(to, Answer::Silent(silence)),
            Self::Raised(to) => Told::Raised(to, Answer::Silent(silence)),
            Self::One(to) => Told::One(to, Answer::Silent(silence)),
            Self::Filed(to) => Told::Filed(to, Answer::Silent(silence)),
            Self::Until(to) => {
                let each = |_| Answer::Silent(silence.clone());
                Told::Until(to, ask.terms().iter().map(each).collect())
            }
            Self::Freed(to) => Told::Freed(to, Answer::Silent(silence)),
            Self::Holder(to) => Told::Holder(to, Answer::Silent(silence)),
            Self::Forced(to) => Told::Forced(to, Answer::Silent(silence)),
        }
    }

    /// A definite no to whoever asked for a vote; others hear that they were not asked.
    pub(super) fn denied(self, ask: &Ask, denial: &Denial, report: NodeReport) -> Told {
        let no = || denial.clone();
        match self {
            Self::Vote(to) => Told::Vote(to, Answer::No(no())),
            Self::Raised(to) => Told::Raised(to, Answer::No(no())),
            Self::One(to) => Told::One(to, Answer::No(no())),
            Self::Until(to) => {
                Told::Until(to, ask.terms().iter().map(|_| Answer::No(no())).collect())
            }
            other => other.silent(ask, Silence::Never(report)),
        }
    }

    pub(super) fn told(self, ask: &Ask, reply: Reply, with: Context<'_>) -> Told {
        let until = |term: &Term| expiry(with.asked, term.ttl, with.rho);
        match (self, ask, reply) {
            (Self::Vote(to), Ask::Acquire(term, ..), Reply::Taken(taken)) => {
                let answer = match taken {
                    Taken::Accepted => voted(until(term), Acceptance::Accepted),
                    Taken::Behind(mark) => voted(until(term), Acceptance::Behind(Fence::new(mark))),
                    Taken::Busy(ms) => Answer::No(busy(ms)),
                };
                Told::Vote(to, answer)
            }
            (Self::Raised(to), _, Reply::Raised(raised)) => {
                let answer = match raised {
                    Raised::Accepted => Answer::Yes(Acceptance::Accepted),
                    Raised::Behind(mark) => Answer::Yes(Acceptance::Behind(Fence::new(mark))),
                    Raised::Gone => Answer::No(Denial::Gone),
                };
                Told::Raised(to, answer)
            }
            (Self::One(to), Ask::Recreate(term, _), Reply::Recreated(other)) => {
                let yes = Answer::Yes(until(term));
                Told::One(to, other.map_or(yes, |ms| Answer::No(busy(Some(ms)))))
            }
            (Self::One(to), Ask::Recreate(term, _), Reply::WrongType) => {
                Told::One(to, other_wire(&term.name, with.label))
            }
            (Self::Filed(to), _, Reply::Filed(filed)) => Told::Filed(to, Answer::Yes(filed)),
            (to, ask, Reply::Unproven) => {
                let report = NodeReport::new(with.label, NodeProblem::Reverified);
                to.denied(ask, &Denial::Stale(report.clone()), report)
            }
            (to, ask, Reply::TooLong) => {
                let (code, text) = ("TOOLONG".into(), "TOOLONG".into());
                let report = NodeReport::new(with.label, NodeProblem::Refused { code, text });
                to.denied(ask, &Denial::Refused(report.clone()), report)
            }
            (Self::Until(to), Ask::Renew(terms), Reply::Renewed(held)) => {
                let each = |(term, held)| held_or_gone(until(term), held);
                Told::Until(to, terms.iter().zip(held).map(each).collect())
            }
            (Self::Freed(to), _, Reply::Freed(freed)) => Told::Freed(to, Answer::Yes(freed)),
            // A key of another type is not our hold.
            (Self::Freed(to), _, Reply::WrongType) => {
                Told::Freed(to, Answer::Yes(Freed { held: false, woke: None }))
            }
            (Self::Holder(to), _, Reply::Holder(held)) => {
                Told::Holder(to, Answer::Yes(held.map(|(held, ms)| holder(&held, ms))))
            }
            (Self::Forced(to), _, Reply::Forced(held)) => Told::Forced(to, Answer::Yes(held)),
            (Self::Vote(to), Ask::Acquire(term, ..), Reply::WrongType) => {
                Told::Vote(to, other_wire(&term.name, with.label))
            }
            (Self::Raised(to), Ask::Raise(term, ..), Reply::WrongType) => {
                Told::Raised(to, other_wire(&term.name, with.label))
            }
            // No node gives an answer that fits no question.
            (to, ask, _) => to.silent(
                ask,
                Silence::Maybe(NodeReport::new(
                    with.label,
                    NodeProblem::Malformed("confused".into()),
                )),
            ),
        }
    }
}

impl Told {
    pub(super) fn deliver(self) {
        match self {
            Self::Vote(to, answer) => to.send(answer),
            Self::Raised(to, answer) => to.send(answer),
            Self::Until(to, answer) => to.send(answer),
            Self::Freed(to, answer) => to.send(answer),
            Self::Holder(to, answer) => to.send(answer),
            Self::Forced(to, answer) => to.send(answer),
            Self::One(to, answer) => to.send(answer),
            Self::Filed(to, answer) => to.send(answer),
        }
    }
}

fn voted(until: Instant, token: Acceptance) -> Answer<Vote> {
    Answer::Yes(Vote { until, token })
}

fn busy(ms: Option<u64>) -> Denial {
    Denial::Busy(ms.map(Duration::from_millis))
}

fn held_or_gone<T>(yes: T, held: bool) -> Answer<T> {
    if held { Answer::Yes(yes) } else { Answer::No(Denial::Gone) }
}

fn other_wire<T>(name: &Name, label: &str) -> Answer<T> {
    let problem = NodeProblem::WrongType { key: name.to_string() };
    Answer::No(Denial::Refused(NodeReport::new(label, problem)))
}

fn holder(held: &Held, ms: u64) -> Holder {
    let (nonce, client) = (held.by.nonce, held.by.client);
    let (id, holds) = match held.wire {
        Wire::Redisson => (format!("{}:{client}", nonce.hyphenated()), held.holds),
        _ => (nonce.to_string(), 1),
    };
    Holder::new(id, Some(Duration::from_millis(ms)), holds)
}

/// Whole milliseconds, rounded up, as on the wire.
pub(super) fn millis(d: Duration) -> u64 {
    let nanos = u128::from(!d.subsec_nanos().is_multiple_of(1_000));
    (micros(d) + nanos as u64).div_ceil(1_000)
}
