//! Pure: what "not held" means in reply to a release that is asked again (decision 0031).

use quorumlock_watchdog::Instant;

/// The time in which a node surely holds a nonce, for all that the holder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When the acquisition was asked for.
    pub since: Instant,
    /// The end of the window, of this node.
    pub until: Instant,
}

impl Held {
    /// Nothing is known: no repeat is taken for a success.
    pub const UNKNOWN: Self = Self { since: Instant::NEVER, until: Instant::NEVER };
}

/// Which life of a server a node has met. A life ends with a restart or a promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// The last one; within, `None` for a server that does not say.
    met: Option<Option<u64>>,
    changed: Option<Instant>,
}

impl Lives {
    /// A connection was greeted at `now` by this life of a server, if it says which.
    pub fn meet(&mut self, life: Option<u64>, now: Instant) {
        let known = self.met.replace(life);
        if known.is_some_and(|known| life.is_none() || known != life) {
            self.changed = Some(now);
        }
    }
}

/// A release whose answer has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    held: Held,
    /// The life to which all of it was written, and when that connection broke.
    written_to: Option<u64>,
    broke: Instant,
}

/// The connection on which a release is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Which life of the server greeted us, if it says which.
    pub life: Option<u64>,
    /// When.
    pub at: Instant,
}

impl Unconfirmed {
    /// A release that was not written yet.
    pub fn new(held: Held) -> Self {
        Self { held, written_to: None, broke: Instant::NEVER }
    }

    /// All of it was written to this life of the server, on a connection that broke at `now`.
    pub fn written(&mut self, life: Option<u64>, now: Instant) {
        (self.written_to, self.broke) = (life, now);
    }

    /// A repeat, on a connection that was greeted so, heard "not held" at `now`: whether an earlier
    /// request freed the lock.
    ///
    /// Until the window shuts, only a release ends the hold in a server that lives on (SAFETY.md
    /// A3). `now` is when the reply is heard: the window may shut between the request and its
    /// execution. A connection that is older than the break may not have noticed that the server
    /// has another memory.
    pub fn freed_it(&self, greeting: Greeting, lives: &Lives, now: Instant) -> bool {
        let same = greeting.life.is_some() && greeting.life == self.written_to;
        let lived_on = lives.changed.is_none_or(|at| at < self.held.since);
        same && lived_on && greeting.at > self.broke && now < self.held.until
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::NEVER + Duration::from_secs(secs)
    }

    const HELD: fn() -> Held = || Held { since: at(2), until: at(9) };

    #[test]
    fn only_what_was_written_to_a_server_that_lived_on_freed_the_lock_in_its_window() {
        let mut lives = Lives::default();
        lives.meet(Some(7), at(1));
        let mut release = Unconfirmed::new(HELD());
        let greeted = |life| Greeting { life, at: at(4) };
        assert!(!release.freed_it(greeted(Some(7)), &lives, at(5)), "not wholly written");
        release.written(Some(7), at(3));
        assert!(release.freed_it(greeted(Some(7)), &lives, at(8)));
        assert!(!release.freed_it(greeted(Some(7)), &lives, at(9)), "the window is shut");
        assert!(!release.freed_it(greeted(Some(8)), &lives, at(5)), "another life");
        assert!(!release.freed_it(greeted(None), &lives, at(5)), "it does not say");
        let old = Greeting { life: Some(7), at: at(2) };
        assert!(!release.freed_it(old, &lives, at(5)), "greeted before the break");
        lives.meet(Some(7), at(4));
        assert!(release.freed_it(greeted(Some(7)), &lives, at(5)), "the same life again");
        lives.meet(Some(8), at(6));
        lives.meet(Some(7), at(6));
        assert!(!release.freed_it(greeted(Some(7)), &lives, at(7)), "changed since the grant");
    }

    #[test]
    fn a_server_that_does_not_say_who_it_is_may_be_another_each_time() {
        let mut lives = Lives::default();
        lives.meet(None, at(1));
        let mut release = Unconfirmed::new(HELD());
        release.written(None, at(3));
        assert!(!release.freed_it(Greeting { life: None, at: at(4) }, &lives, at(5)));
        lives.meet(None, at(4));
        release.written(Some(7), at(3));
        assert!(!release.freed_it(Greeting { life: Some(7), at: at(4) }, &lives, at(5)));
    }
}
