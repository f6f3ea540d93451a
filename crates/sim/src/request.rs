//! Requests that a client's code posts to a node, and the answers that it receives.

use quorumlock_protocol::{
    Acceptance, Answer, Denial, Instant, LeaseRequest, Name, NoAnswer, ReleaseOutcome, Vote,
};

/// A request, as far as the ledger follows it.
#[derive(Clone, Debug)]
pub enum SimRequest {
    Acquire(LeaseRequest),
    Raise(LeaseRequest),
    Regrant(LeaseRequest),
    Renew(Vec<LeaseRequest>),
    Release(LeaseRequest),
    Inspect(Name),
    ForceRelease(Name),
}

/// An answer.
#[derive(Clone, Debug)]
pub enum SimAnswer {
    Vote(Answer<Vote>),
    Raised(Answer<Acceptance>),
    One(Answer<Instant>),
    Until(Vec<Answer<Instant>>),
    Freed(Answer<ReleaseOutcome>),
    Other,
}

impl SimRequest {
    pub fn leases(&self) -> &[LeaseRequest] {
        match self {
            Self::Acquire(lease)
            | Self::Raise(lease)
            | Self::Regrant(lease)
            | Self::Release(lease) => std::slice::from_ref(lease),
            Self::Renew(leases) => leases,
            Self::Inspect(_) | Self::ForceRelease(_) => &[],
        }
    }

    /// The number of the verb in the trace.
    pub fn number(&self) -> u64 {
        match self {
            Self::Acquire(..) => 1,
            Self::Raise(..) => 2,
            Self::Renew(_) => 3,
            Self::Release(..) => 4,
            Self::Inspect(_) => 5,
            Self::ForceRelease(_) => 6,
            Self::Regrant(..) => 7,
        }
    }
}

impl SimAnswer {
    /// The denial, of the first lease.
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Vote(Answer::No(denial))
            | Self::Raised(Answer::No(denial))
            | Self::One(Answer::No(denial))
            | Self::Freed(Answer::No(denial)) => Some(denial),
            Self::Until(answers) => match answers.first() {
                Some(Answer::No(denial)) => Some(denial),
                _ => None,
            },
            _ => None,
        }
    }

    /// Why there is no answer, if there is none for the first lease.
    pub fn no_answer(&self) -> Option<&NoAnswer> {
        match self {
            Self::Vote(Answer::NoAnswer(why))
            | Self::Raised(Answer::NoAnswer(why))
            | Self::One(Answer::NoAnswer(why))
            | Self::Freed(Answer::NoAnswer(why)) => Some(why),
            Self::Until(answers) => match answers.first() {
                Some(Answer::NoAnswer(why)) => Some(why),
                _ => None,
            },
            _ => None,
        }
    }
}
