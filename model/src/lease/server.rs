use super::model::CLIENTS;
use super::rule::{AHEAD, Rule};
use crate::admission::{Deed, Quarantine, counts, memory};
use crate::claim::{Claim, MOST};

/// The state of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// For each key and each client, the tick at which the node no longer holds it; 0 if it does not
    /// hold it.
    ends: [[u8; CLIENTS]; MOST],
    /// The earliest tick at which the node can be admitted again: a client that has watched it
    /// since the crash may admit it then. Zero once that tick has passed.
    admitted_at: u8,
}

/// A client, what all clients ask for, and for how long a node keeps this client's leases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks<'a> {
    pub(super) client: usize,
    pub(super) claims: &'a [Claim],
    pub(super) kept: u8,
    pub(super) quarantine: Quarantine,
    pub(super) rule: Rule,
}

/// The answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Yes,
    /// The key is not this client's.
    No,
    /// The node carried out the request, but its yes does not count in its quarantine.
    Uncounted,
}

impl Server {
    /// Whether no other client holds what excludes this one.
    pub(super) fn admits(&self, client: usize, claims: &[Claim]) -> bool {
        let holds = |other: usize| claims[client].keys().any(|key| self.ends[key][other] > 0);
        let excluded = |other: usize| {
            other != client && holds(other) && claims[client].excludes(claims[other])
        };
        !(0..claims.len()).any(excluded)
    }

    pub(super) fn is_held_by(&self, client: usize, claim: Claim) -> bool {
        claim.keys().all(|key| self.ends[key][client] > 0)
    }

    /// Whether the node would say yes to an acquisition now.
    pub(super) fn may_grant(&self, client: usize, claims: &[Claim], rule: Rule) -> bool {
        match rule {
            Rule::PurgeByClient => true,
            Rule::AnySlot => self.free_slot().is_some(),
            _ => self.admits(client, claims),
        }
    }

    pub(super) fn acquire(&mut self, asks: Asks<'_>, now: u8) -> Reply {
        let Asks { client, claims, .. } = asks;
        if asks.rule == Rule::PurgeByClient {
            let ends = self.ends.iter_mut().flatten();
            ends.filter(|end| **end <= now + AHEAD).for_each(|end| *end = 0);
        }
        if asks.rule == Rule::AnySlot {
            let Some(slot) = self.free_slot() else { return Reply::No };
            self.ends[slot][client] = now + asks.kept;
            return Reply::Yes;
        }
        if !self.admits(client, claims) {
            return Reply::No;
        }
        self.hold(asks, now, Deed::Grant)
    }

    pub(super) fn renew(&mut self, asks: Asks<'_>, now: u8, recreates: bool) -> Reply {
        let Asks { client, claims, .. } = asks;
        if self.is_held_by(client, claims[client]) {
            self.hold(asks, now, Deed::Extension)
        } else if recreates && self.admits(client, claims) {
            self.hold(asks, now, Deed::Regrant)
        } else {
            Reply::No
        }
    }

    /// Writes the keys even where the yes does not count. The library's scripts refuse instead, so
    /// the model is more permissive here.
    fn hold(&mut self, asks: Asks<'_>, now: u8, deed: Deed) -> Reply {
        for key in asks.claims[asks.client].keys() {
            self.ends[key][asks.client] = now + asks.kept;
            if asks.rule == Rule::ExpiryPerKey {
                let others = self.ends[key].iter_mut().filter(|end| **end > 0);
                others.for_each(|end| *end = now + asks.kept);
            }
        }
        if counts(asks.quarantine, memory(self.admitted_at > now), deed) {
            Reply::Yes
        } else {
            Reply::Uncounted
        }
    }

    fn free_slot(&self) -> Option<usize> {
        (0..MOST).find(|slot| self.ends[*slot].iter().all(|end| *end == 0))
    }

    pub(super) fn free(&mut self, client: usize) {
        self.ends.iter_mut().for_each(|ends| ends[client] = 0);
    }

    pub(super) fn crash(&mut self, now: u8, quarantine: Quarantine, longest: u8) {
        let admitted_at = if quarantine == Quarantine::None { 0 } else { now + longest };
        *self = Self { admitted_at, ..Self::default() };
    }

    pub(super) fn pass(&mut self, now: u8) {
        self.ends.iter_mut().flatten().filter(|end| **end <= now).for_each(|end| *end = 0);
        if self.admitted_at <= now {
            self.admitted_at = 0;
        }
    }
}
