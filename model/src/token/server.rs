use super::rule::Rule;
use crate::claim::{Claim, MOST};

/// The state of one node for one slot, and for the names in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// For each name, the largest token that the node has accepted.
    pub(super) marks: [u8; MOST],
    /// For each key, the acquisitions that hold it, as bits.
    pub(super) holders: [u8; MOST],
    /// The node lost its data and has not been admitted again.
    pub(super) amnesic: bool,
    /// The incarnation of the node, to which requests are bound where the model binds them.
    pub(super) incarnation: u8,
    /// The acquisitions to which the node has granted the name, as bits; kept only with
    /// `minds_grants`.
    pub(super) granted: u8,
}

/// Whether a node accepts a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Accepted,
    /// It does not: its mark, given here, is not below the token.
    Behind(u8),
}

/// The answer of a node to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    /// The node holds the client's nonce.
    Yes(Verdict),
    /// Another acquisition holds the name. What became of the token matters to
    /// [`Rule::DenierConfirms`] alone.
    Busy(Verdict),
    /// This nonce does not hold the name, or no longer holds it.
    Gone,
    /// The node's memory must be verified first.
    Unproven,
}

impl Server {
    pub(super) fn new(mark: u8) -> Self {
        let (marks, holders) = ([mark; MOST], [0; MOST]);
        Self { marks, holders, amnesic: false, incarnation: 0, granted: 0 }
    }

    /// Grants all keys of the claim if no other acquisition holds what excludes it, and accepts the
    /// token in the same step.
    pub(super) fn acquire(
        &mut self,
        client: usize,
        token: u8,
        rule: Rule,
        claims: &[Claim],
    ) -> Reply {
        let claim = claims[client];
        if self.amnesic {
            return Reply::Unproven;
        }
        if !self.admits(client, claims) {
            return match rule {
                Rule::DenierConfirms => Reply::Busy(self.accept(token, rule, claim)),
                _ => Reply::Busy(Verdict::Behind(0)),
            };
        }
        claim.keys().for_each(|key| self.holders[key] |= 1 << client);
        Reply::Yes(self.accept(token, rule, claim))
    }

    /// Whether no other acquisition holds what excludes this one.
    pub(super) fn admits(&self, client: usize, claims: &[Claim]) -> bool {
        let excluded = |other: usize| {
            let holds = claims[client].keys().any(|key| self.holders[key] & (1 << other) != 0);
            other != client && holds && claims[client].excludes(claims[other])
        };
        !(0..claims.len()).any(excluded)
    }

    /// Whether the acquisition holds all keys of its claim.
    pub(super) fn is_held_by(&self, client: usize, claim: Claim) -> bool {
        claim.keys().all(|key| self.holders[key] & (1 << client) != 0)
    }

    pub(super) fn is_held(&self) -> bool {
        self.holders.iter().any(|holders| *holders != 0)
    }

    pub(super) fn free(&mut self, client: usize) {
        self.holders.iter_mut().for_each(|holders| *holders &= !(1 << client));
    }

    /// Accepts another token of the acquisition that holds the claim.
    pub(super) fn raise(&mut self, client: usize, token: u8, rule: Rule, claim: Claim) -> Reply {
        if self.amnesic {
            return Reply::Unproven;
        }
        let held = match rule {
            Rule::RaiseUnheld => true,
            Rule::RaisePartlyHeld => claim.keys().any(|key| self.holders[key] & (1 << client) != 0),
            _ => self.is_held_by(client, claim),
        };
        if !held {
            return Reply::Gone;
        }
        Reply::Yes(self.accept(token, rule, claim))
    }

    /// Each mark of the claim moves to the token if it is below it. The node has accepted the token
    /// if all have moved.
    fn accept(&mut self, token: u8, rule: Rule, claim: Claim) -> Verdict {
        let mut behind = None;
        let mut moved = false;
        for mark in claim.marks() {
            let mark = &mut self.marks[mark];
            if token > *mark || rule == Rule::EqualAccepted && token == *mark {
                *mark = token;
                moved = true;
            } else {
                behind = behind.max(Some(*mark));
            }
        }
        match behind {
            Some(mark) if !(moved && rule == Rule::OneMarkConfirms) => Verdict::Behind(mark),
            _ => Verdict::Accepted,
        }
    }

    /// A release hands the name to `client`. Returns the token of the grant; `None` if the node has
    /// no mark, or has lost its data.
    pub(super) fn hand_off(&mut self, client: usize, block: u8, rule: Rule) -> Option<u8> {
        let mark = self.marks[0];
        if mark == 0 || self.amnesic {
            return None;
        }
        self.holders[0] = 1 << client;
        self.marks[0] = match rule {
            Rule::HandsNextNumber => mark + 1,
            _ => mark / block * block + 2 * block - 1,
        };
        Some(self.marks[0])
    }
}
