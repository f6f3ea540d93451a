//! Requests, the replies of nodes, and the answers that clients receive. The translation is that of
//! the real connection.

use std::time::Duration;

use quorumlock_protocol::admission::members::Terms;
use quorumlock_protocol::admission::{AdmitRequest, Marks, NodeInfo, NoteRequest};
use quorumlock_protocol::expiry;
use quorumlock_protocol::{
    Acceptance, Answer, Denial, Fence, HeldInterval as HeldFor, Hints, Holder, Incarnation,
    Instant, LeaseRequest, Name, NoAnswer, NodeProblem, NodeReport, QueueAction, ReleaseOutcome,
    Responder, Unconfirmed, Vote, Wire,
};

use super::store::{AcquireReply, Held, Raised};

/// A request on its way.
#[derive(Clone, Debug)]
pub enum SimRequest {
    Acquire(LeaseRequest, Fence, Incarnation, Hints),
    Raise(LeaseRequest, Fence, Incarnation),
    Regrant(LeaseRequest, Fence),
    Renew(Vec<LeaseRequest>),
    /// The lease to release, what the client does with its place in the queue, and the state of the
    /// release.
    Release(LeaseRequest, Option<QueueAction>, ReleaseState),
    Inspect(Name),
    ForceRelease(Name),
    Dequeue(Name),
    Admission(AdmissionRequest),
}

/// The state of a release, as the real connection keeps it.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseState {
    pub unconfirmed: Unconfirmed,
    /// This request repeats an earlier one that got no answer.
    pub repeat: bool,
}

/// A request of the admission RPC.
#[derive(Clone, Debug)]
pub enum AdmissionRequest {
    NodeInfo,
    Note(NoteRequest),
    Barrier(String),
    Admit(AdmitRequest),
    WriteTerms(Incarnation, Terms, String),
    Provision(Option<Incarnation>, Terms, String),
}

/// The answer to a request of the admission RPC.
#[derive(Clone, Debug)]
pub enum AdmissionReply {
    NodeInfo(Box<NodeInfo>),
    Marks(Marks),
    Number(u64),
}

/// Where the answer goes.
#[derive(Debug)]
pub enum SimResponder {
    Vote(Responder<Answer<Vote>>),
    Raised(Responder<Answer<Acceptance>>),
    One(Responder<Answer<Instant>>),
    Until(Responder<Vec<Answer<Instant>>>),
    Freed(Responder<Answer<ReleaseOutcome>>),
    Holder(Responder<Answer<Option<Holder>>>),
    Forced(Responder<Answer<bool>>),
    Admission(Responder<Answer<AdmissionReply>>),
}

/// The reply of a script.
#[derive(Clone, Debug)]
pub enum Reply {
    Taken(AcquireReply),
    Raised(Raised),
    /// The remaining milliseconds of another holder, if one holds the name.
    Regranted(Option<u64>),
    Renewed(Vec<bool>),
    Freed(ReleaseOutcome),
    Holder(Option<(Held, u64)>),
    Forced(bool),
    Admission(AdmissionReply),
    WrongType,
    /// NOSCRIPT or UNPROVEN: the client must verify the node again before it sends more.
    Unproven,
    /// TOOLONG: the lease is longer than L.
    TooLong,
}

/// An answer, ready to be delivered.
#[derive(Debug)]
pub enum DeliveredReply {
    Vote(Responder<Answer<Vote>>, Answer<Vote>),
    Raised(Responder<Answer<Acceptance>>, Answer<Acceptance>),
    One(Responder<Answer<Instant>>, Answer<Instant>),
    Until(Responder<Vec<Answer<Instant>>>, Vec<Answer<Instant>>),
    Freed(Responder<Answer<ReleaseOutcome>>, Answer<ReleaseOutcome>),
    Holder(Responder<Answer<Option<Holder>>>, Answer<Option<Holder>>),
    Forced(Responder<Answer<bool>>, Answer<bool>),
    Admission(Responder<Answer<AdmissionReply>>, Answer<AdmissionReply>),
}

/// What the translation needs besides the reply.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// When the request was posted, on the client's clock.
    pub asked: Instant,
    pub max_clock_drift: f64,
    pub label: &'a str,
}

impl SimRequest {
    pub fn release(lease: &LeaseRequest, held: HeldFor, queue_action: Option<QueueAction>) -> Self {
        let asked = ReleaseState { unconfirmed: Unconfirmed::new(held), repeat: false };
        Self::Release(lease.clone(), queue_action, asked)
    }

    pub fn leases(&self) -> &[LeaseRequest] {
        match self {
            Self::Acquire(lease, ..)
            | Self::Raise(lease, ..)
            | Self::Regrant(lease, _)
            | Self::Release(lease, ..) => std::slice::from_ref(lease),
            Self::Renew(leases) => leases,
            Self::Inspect(_) | Self::ForceRelease(_) | Self::Dequeue(_) | Self::Admission(_) => &[],
        }
    }

    /// Whether the request asks for a vote. Only a node whose memory is proven may give one.
    pub fn votes(&self) -> bool {
        matches!(self, Self::Acquire(..) | Self::Raise(..) | Self::Regrant(..) | Self::Renew(_))
    }

    /// The incarnation under which the node must be verified when the client sends the request.
    /// `None`: any.
    pub fn incarnation(&self) -> Option<Incarnation> {
        match self {
            Self::Acquire(.., incarnation, _) | Self::Raise(.., incarnation) => Some(*incarnation),
            _ => None,
        }
    }

    pub fn verb(&self) -> &'static str {
        match self {
            Self::Acquire(..) => "acquire",
            Self::Raise(..) => "raise",
            Self::Renew(_) => "renew",
            Self::Release(..) => "release",
            Self::Inspect(_) => "inspect",
            Self::ForceRelease(_) => "force_release",
            Self::Dequeue(_) => "dequeue",
            Self::Regrant(..) => "regrant",
            Self::Admission(_) => "admission",
        }
    }
}

impl SimResponder {
    /// The delivered reply if there is no answer.
    pub fn no_answer(self, request: &SimRequest, no_answer: NoAnswer) -> DeliveredReply {
        match self {
            Self::Vote(to) => DeliveredReply::Vote(to, Answer::NoAnswer(no_answer)),
            Self::Raised(to) => DeliveredReply::Raised(to, Answer::NoAnswer(no_answer)),
            Self::One(to) => DeliveredReply::One(to, Answer::NoAnswer(no_answer)),
            Self::Admission(to) => DeliveredReply::Admission(to, Answer::NoAnswer(no_answer)),
            Self::Until(to) => {
                let each = |_| Answer::NoAnswer(no_answer.clone());
                DeliveredReply::Until(to, request.leases().iter().map(each).collect())
            }
            Self::Freed(to) => DeliveredReply::Freed(to, Answer::NoAnswer(no_answer)),
            Self::Holder(to) => DeliveredReply::Holder(to, Answer::NoAnswer(no_answer)),
            Self::Forced(to) => DeliveredReply::Forced(to, Answer::NoAnswer(no_answer)),
        }
    }

    /// A definite no if the request asks for a vote. For any other request: it was not sent.
    pub fn denied(
        self,
        request: &SimRequest,
        denial: &Denial,
        report: NodeReport,
    ) -> DeliveredReply {
        let no = || denial.clone();
        match self {
            Self::Vote(to) => DeliveredReply::Vote(to, Answer::No(no())),
            Self::Raised(to) => DeliveredReply::Raised(to, Answer::No(no())),
            Self::One(to) => DeliveredReply::One(to, Answer::No(no())),
            Self::Until(to) => DeliveredReply::Until(
                to,
                request.leases().iter().map(|_| Answer::No(no())).collect(),
            ),
            other => other.no_answer(request, NoAnswer::NotSent(report)),
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each request")]
    pub fn replied(self, request: &SimRequest, reply: Reply, with: Context<'_>) -> DeliveredReply {
        let until = |lease: &LeaseRequest| expiry(with.asked, lease.ttl, with.max_clock_drift);
        match (self, request, reply) {
            (Self::Vote(to), SimRequest::Acquire(lease, ..), Reply::Taken(taken)) => {
                let answer = match taken {
                    AcquireReply::Accepted => voted(until(lease), Acceptance::Accepted),
                    AcquireReply::Behind(mark) => {
                        voted(until(lease), Acceptance::Behind(Fence::new(mark)))
                    }
                    AcquireReply::Busy(ms) => Answer::No(busy(ms)),
                };
                DeliveredReply::Vote(to, answer)
            }
            (Self::Raised(to), _, Reply::Raised(raised)) => {
                let answer = match raised {
                    Raised::Accepted => Answer::Yes(Acceptance::Accepted),
                    Raised::Behind(mark) => Answer::Yes(Acceptance::Behind(Fence::new(mark))),
                    Raised::Gone => Answer::No(Denial::Gone),
                };
                DeliveredReply::Raised(to, answer)
            }
            (Self::One(to), SimRequest::Regrant(lease, _), Reply::Regranted(other)) => {
                let yes = Answer::Yes(until(lease));
                DeliveredReply::One(to, other.map_or(yes, |ms| Answer::No(busy(Some(ms)))))
            }
            (Self::One(to), SimRequest::Regrant(lease, _), Reply::WrongType) => {
                DeliveredReply::One(to, other_wire(&lease.name, with.label))
            }
            (Self::Admission(to), _, Reply::Admission(filed)) => {
                DeliveredReply::Admission(to, Answer::Yes(filed))
            }
            (to, request, Reply::Unproven) => {
                let report = NodeReport::new(with.label, NodeProblem::Reverified);
                to.denied(request, &Denial::Stale(report.clone()), report)
            }
            (to, request, Reply::TooLong) => {
                let (code, text) = ("TOOLONG".into(), "TOOLONG".into());
                let report = NodeReport::new(with.label, NodeProblem::Refused { code, text });
                to.denied(request, &Denial::Refused(report.clone()), report)
            }
            (Self::Until(to), SimRequest::Renew(leases), Reply::Renewed(held)) => {
                let each = |(lease, held)| held_or_gone(until(lease), held);
                DeliveredReply::Until(to, leases.iter().zip(held).map(each).collect())
            }
            (Self::Freed(to), _, Reply::Freed(freed)) => {
                DeliveredReply::Freed(to, Answer::Yes(freed))
            }
            // A key of another type does not hold the lock for this client.
            (Self::Freed(to), _, Reply::WrongType) => DeliveredReply::Freed(
                to,
                Answer::Yes(ReleaseOutcome { held: false, notified: None }),
            ),
            (Self::Holder(to), _, Reply::Holder(held)) => {
                DeliveredReply::Holder(to, Answer::Yes(held.map(|(held, ms)| holder(&held, ms))))
            }
            (Self::Forced(to), _, Reply::Forced(held)) => {
                DeliveredReply::Forced(to, Answer::Yes(held))
            }
            (Self::Vote(to), SimRequest::Acquire(lease, ..), Reply::WrongType) => {
                DeliveredReply::Vote(to, other_wire(&lease.name, with.label))
            }
            (Self::Raised(to), SimRequest::Raise(lease, ..), Reply::WrongType) => {
                DeliveredReply::Raised(to, other_wire(&lease.name, with.label))
            }
            // Unreachable: a node never gives a reply that does not fit the request.
            (to, request, _) => to.no_answer(
                request,
                NoAnswer::Unknown(NodeReport::new(
                    with.label,
                    NodeProblem::Malformed("confused".into()),
                )),
            ),
        }
    }
}

impl DeliveredReply {
    pub fn deliver(self) {
        match self {
            Self::Vote(to, answer) => to.send(answer),
            Self::Raised(to, answer) => to.send(answer),
            Self::Until(to, answer) => to.send(answer),
            Self::Freed(to, answer) => to.send(answer),
            Self::Holder(to, answer) => to.send(answer),
            Self::Forced(to, answer) => to.send(answer),
            Self::One(to, answer) => to.send(answer),
            Self::Admission(to, answer) => to.send(answer),
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
