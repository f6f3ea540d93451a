use std::time::Duration;

use quorumlock_protocol::Instant;

use super::rule::Rule;
use crate::admission::Quarantine;
use crate::claim::Claim;
use crate::search::Once;

/// The number of nodes.
pub const N: usize = 3;

/// The length of a lease, in ticks. L is the takeover delay more.
pub const TTL: u8 = 3;

/// The largest number of clients.
pub const CLIENTS: usize = 3;

/// The model that is searched, with `C` clients.
#[derive(Debug)]
pub struct LeaseModel<const C: usize> {
    /// What each client asks for.
    pub claims: [Claim; C],
    /// How long the leases of each client are, in ticks; [`TTL`] at most.
    pub ttls: [u8; C],
    /// The takeover delay, in ticks: for how long a node keeps a lease beyond its length.
    pub delay: u8,
    /// How leases are held.
    pub rule: Rule,
    /// The last tick.
    pub horizon: u8,
    /// The number of renewals of each client.
    pub renewals: usize,
    /// How many times, in all, a node loses its data.
    pub crashes: u8,
    /// Whether a renewal writes the key again where it is missing.
    pub regrants: bool,
    /// Whose yes counts after a node has lost its data.
    pub quarantine: Quarantine,
    /// Whether actions that cannot break a rule are left out; see [`LeaseModel::frugal`].
    pub frugal: bool,
    /// Reports each property once.
    pub once: Once,
}

impl<const C: usize> LeaseModel<C> {
    /// A model that leaves out actions that cannot break a rule.
    ///
    /// - A client does not hear a *no*: it only takes belief away. (In full it does, and drops the
    ///   vote.)
    /// - A client hears a yes at once: if it hears the yes later, it believes it for a shorter
    ///   time.
    /// - Acquisitions and renewals begin when a node first serves them: an end that is counted from
    ///   an earlier tick comes earlier.
    /// - A client that has ended leaves no requests, and no keys that it may release: they could only
    ///   make nodes say no.
    /// - Without a takeover delay no client releases its lease: the loss of a lease frees it as well.
    pub fn frugal(horizon: u8, renewals: usize, crashes: u8, quarantine: Quarantine) -> Self {
        let (claims, ttls, delay, rule) = ([Claim::ONE; C], [TTL; C], 0, Rule::Library);
        let (regrants, frugal, once) = (true, true, Once::default());
        Self {
            claims,
            ttls,
            delay,
            rule,
            horizon,
            renewals,
            crashes,
            regrants,
            quarantine,
            frugal,
            once,
        }
    }

    /// Each client asks for one of these.
    pub fn claiming(self, claims: [Claim; C]) -> Self {
        Self { claims, ..self }
    }

    /// With leases of different lengths.
    pub fn with_leases(self, ttls: [u8; C]) -> Self {
        Self { ttls, ..self }
    }

    /// With this takeover delay.
    pub fn delaying(self, delay: u8) -> Self {
        Self { delay, ..self }
    }

    /// With this rule.
    pub fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// How long a client counts on a lease.
    pub(super) fn counted(&self, client: usize) -> u8 {
        self.ttls[client] + if self.rule == Rule::CountsDelay { self.delay } else { 0 }
    }

    /// How long a node keeps a lease (PROTOCOL.md WIN3).
    pub(super) fn kept(&self, client: usize) -> u8 {
        self.ttls[client] + self.delay
    }

    /// L: how long a node that has lost its data is not admitted.
    pub(super) fn longest(&self) -> u8 {
        TTL + if self.rule == Rule::ShortQuarantine { 0 } else { self.delay }
    }

    /// The model with all actions.
    pub fn in_full(self) -> Self {
        Self { frugal: false, ..self }
    }

    /// Renewals lengthen a key that exists, and write no missing key again.
    pub fn never_regranting(self) -> Self {
        Self { regrants: false, ..self }
    }
}

/// The instant of a tick. None of them is [`Instant::NEVER`].
pub(super) fn at(tick: u8) -> Instant {
    Instant::NEVER + SECOND * (u32::from(tick) + 1)
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
