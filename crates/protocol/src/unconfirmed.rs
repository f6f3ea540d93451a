//! Pure: what "not held" means in reply to a release that is sent again (decision 0016).

use std::time::Duration;

use crate::Instant;

/// The time in which a node surely holds a nonce, as far as the holder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldInterval {
    /// When the acquisition was sent, or a later request that the node has confirmed.
    pub since: Instant,
    /// When the window of this node ends.
    pub until: Instant,
}

impl HeldInterval {
    /// Nothing is known: then "not held" in reply to a repeat never counts as released.
    pub const UNKNOWN: Self = Self { since: Instant::NEVER, until: Instant::NEVER };

    /// The interval of a lease of `ttl`, taken at `since`, that the node holds until `until`: it has
    /// confirmed that at `until - ttl` at the earliest.
    pub fn confirmed(since: Instant, until: Instant, ttl: Duration) -> Self {
        Self { since: since.max(until - ttl), until }
    }
}

/// The server run that a node has met, by run id and replication id. A run ends with a restart or a
/// promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunIds {
    /// The last run; the inner `None` is a server that does not tell its ids.
    last: Option<Option<u64>>,
    changed_at: Option<Instant>,
}

impl RunIds {
    /// The handshake of a connection met this run of a server at `now`; `None` if the server does
    /// not tell its ids. `proven`: its memory is proven, or need not be.
    pub fn meet(&mut self, life: Option<u64>, proven: bool, now: Instant) {
        let known = self.last.replace(life);
        if known.is_some_and(|known| life.is_none() || known != life || !proven) {
            self.changed_at = Some(now);
        }
    }
}

/// A release whose answer has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    held: HeldInterval,
    /// The run to which the whole release was written, and when that connection broke.
    written_to: Option<u64>,
    broke_at: Instant,
}

/// The connection on which a release is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The server run that answered the handshake, if the server tells its ids.
    pub run_identity: Option<u64>,
    /// When the handshake was answered.
    pub at: Instant,
}

impl Unconfirmed {
    /// A release that has not been written yet.
    pub fn new(held: HeldInterval) -> Self {
        Self { held, written_to: None, broke_at: Instant::NEVER }
    }

    /// The whole release was written to this run of the server, on a connection that broke at
    /// `now`.
    pub fn written(&mut self, life: Option<u64>, now: Instant) {
        (self.written_to, self.broke_at) = (life, now);
    }

    /// Whether the server has lost its memory since it last confirmed the lease: its "not held" is then
    /// no sign that the lock is lost (decision 7).
    pub fn forgotten(&self, lives: &RunIds) -> bool {
        lives.changed_at.is_some_and(|at| at >= self.held.since)
    }

    /// Whether an earlier request released the lock, when a repeat on the connection with this
    /// `greeting` was answered "not held" at `now`.
    ///
    /// Until the window shuts, only a release ends the hold on a server whose run continues
    /// (SAFETY.md A3, PROTOCOL.md REL1). `now` is when the reply arrives, because the window may shut between the
    /// request and its execution. A connection that is older than the break may not have noticed
    /// that the server has another memory.
    pub fn was_freed(&self, greeting: Greeting, lives: &RunIds, now: Instant) -> bool {
        let same = greeting.run_identity.is_some() && greeting.run_identity == self.written_to;
        let lived_on = lives.changed_at.is_none_or(|at| at < self.held.since);
        same && lived_on && greeting.at > self.broke_at && now < self.held.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::NEVER + Duration::from_secs(secs)
    }

    const HELD: fn() -> HeldInterval = || HeldInterval { since: at(2), until: at(9) };

    #[test]
    fn only_what_was_written_to_a_server_that_lived_on_freed_the_lock_in_its_window() {
        let mut lives = RunIds::default();
        lives.meet(Some(7), true, at(1));
        let mut release = Unconfirmed::new(HELD());
        let greeted = |life| Greeting { run_identity: life, at: at(4) };
        assert!(!release.was_freed(greeted(Some(7)), &lives, at(5)), "not wholly written");
        release.written(Some(7), at(3));
        assert!(release.was_freed(greeted(Some(7)), &lives, at(8)));
        assert!(!release.was_freed(greeted(Some(7)), &lives, at(9)), "the window is shut");
        assert!(!release.was_freed(greeted(Some(8)), &lives, at(5)), "another life");
        assert!(!release.was_freed(greeted(None), &lives, at(5)), "it does not say");
        let old = Greeting { run_identity: Some(7), at: at(2) };
        assert!(!release.was_freed(old, &lives, at(5)), "greeted before the break");
        lives.meet(Some(7), true, at(4));
        assert!(release.was_freed(greeted(Some(7)), &lives, at(5)), "the same life again");
        lives.meet(Some(8), true, at(6));
        lives.meet(Some(7), true, at(6));
        assert!(!release.was_freed(greeted(Some(7)), &lives, at(7)), "changed since the grant");
    }

    #[test]
    fn a_server_forgot_if_it_was_met_anew_since_it_last_confirmed_the_lease() {
        let met = |life, proven, secs| {
            let mut lives = RunIds::default();
            lives.meet(Some(7), true, at(1));
            lives.meet(Some(life), proven, at(secs));
            lives
        };
        let ttl = Duration::from_secs(4);
        let renewed = Unconfirmed::new(HeldInterval::confirmed(at(2), at(9), ttl));
        for (secs, forgot) in [(1, false), (4, false), (5, true), (8, true)] {
            assert_eq!(renewed.forgotten(&met(8, true, secs)), forgot, "{secs}");
        }
        let denied = Unconfirmed::new(HeldInterval::confirmed(at(2), Instant::NEVER, ttl));
        assert!(denied.forgotten(&met(8, true, 3)), "it has confirmed nothing since");
        assert!(!denied.forgotten(&met(8, true, 1)), "it forgot before the acquisition");
        assert!(!renewed.forgotten(&met(7, true, 6)), "the same run");
        assert!(renewed.forgotten(&met(7, false, 6)), "its memory is not proven");
    }

    #[test]
    fn a_server_that_does_not_say_who_it_is_may_be_another_each_time() {
        let mut lives = RunIds::default();
        lives.meet(None, true, at(1));
        let mut release = Unconfirmed::new(HELD());
        release.written(None, at(3));
        assert!(!release.was_freed(Greeting { run_identity: None, at: at(4) }, &lives, at(5)));
        lives.meet(None, true, at(4));
        release.written(Some(7), at(3));
        assert!(!release.was_freed(Greeting { run_identity: Some(7), at: at(4) }, &lives, at(5)));
    }
}
