//! **Planted bugs.** A small copy of the token decision, because the choice of the token and the
//! count of its confirmations sit inside the library's `Round` and cannot be altered from outside.
//! With [`Rule::LargestHeld`] it is right, which shows that what breaks is the planted rule and
//! not the copy.

use quorumlock_core::{Fence, Grant};
use quorumlock_quorum::round::Step;

use super::decision::open;
use super::server::Said;
use super::{N, Q, Rule};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tally {
    rule: Planted,
    votes: [Ballot; N],
    token: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Planted {
    Nothing,
    DenierConfirms,
    MedianReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ballot {
    Asked,
    /// Granted, with its counter as far as we know.
    Granted(u8),
    Raising(u8),
    Denied(u8),
    Out,
}

impl Tally {
    pub(super) fn new(rule: Rule) -> Self {
        let rule = match rule {
            Rule::DenierConfirms => Planted::DenierConfirms,
            Rule::MedianReply => Planted::MedianReply,
            _ => Planted::Nothing,
        };
        Self { rule, votes: [Ballot::Asked; N], token: None }
    }

    pub(super) fn heard(&mut self, node: usize, said: Option<Said>) -> Step {
        self.votes[node] = match said {
            Some(Said::Yes(counter)) => Ballot::Granted(counter),
            Some(Said::Busy(counter)) => Ballot::Denied(counter),
            _ => Ballot::Out,
        };
        self.decide()
    }

    pub(super) fn raised(&mut self, node: usize, said: Option<Said>) -> Step {
        self.votes[node] = match said {
            Some(Said::Yes(token)) => Ballot::Granted(token),
            _ => Ballot::Out,
        };
        self.decide()
    }

    pub(super) fn decide(&mut self) -> Step {
        let mut replies: Vec<u8> = self.votes.iter().filter_map(Ballot::held).collect();
        replies.sort_unstable();
        if self.token.is_none() && replies.len() >= Q {
            self.token = match self.rule {
                Planted::MedianReply => self.median(&replies),
                _ => replies.last().copied(),
            };
        }
        let open = |ballot: &&Ballot| !matches!(ballot, Ballot::Out | Ballot::Denied(_));
        let Some(token) = self.token else {
            let hope = self.votes.iter().filter(open).count() >= Q;
            return if hope { Step::Wait } else { Step::Failed };
        };
        if self.votes.iter().filter(|ballot| self.confirms(ballot, token)).count() >= Q {
            return Step::Won(Grant { until: self::open(), fence: Fence::new(token.into()) });
        }
        let mut raise = Vec::new();
        for (node, ballot) in self.votes.iter_mut().enumerate() {
            if let Ballot::Granted(counter) = *ballot
                && counter < token
            {
                *ballot = Ballot::Raising(counter);
                raise.push(node);
            }
        }
        match raise.is_empty() {
            true => Step::Wait,
            false => Step::Raise(Fence::new(token.into()), raise),
        }
    }

    /// The q-th smallest, as soon as a majority is not below it; else when all have answered.
    fn median(&self, replies: &[u8]) -> Option<u8> {
        let token = replies[Q - 1];
        let above = replies.iter().filter(|reply| **reply >= token).count() >= Q;
        (above || !self.votes.contains(&Ballot::Asked)).then_some(token)
    }

    fn confirms(&self, ballot: &Ballot, token: u8) -> bool {
        match (*ballot, self.rule) {
            // A larger reply is *read* but not *confirmed*: flaw a4.
            (Ballot::Granted(counter), Planted::MedianReply) => counter >= token,
            (Ballot::Granted(counter), _) => counter == token,
            // Its counter says nothing about whom it was granted to: flaw a1.
            (Ballot::Denied(counter), Planted::DenierConfirms) => counter >= token,
            _ => false,
        }
    }
}

impl Ballot {
    fn held(&self) -> Option<u8> {
        match *self {
            Self::Granted(counter) | Self::Raising(counter) => Some(counter),
            _ => None,
        }
    }
}
