//! Pure: which lease is renewed at what instant, and when it is given up.
//!
//! No clock, no task, no random source: `now` is an argument, so every rule is tested without
//! sleeping.

use std::collections::BTreeSet;
use std::time::Duration;

use foldhash::HashMap;

use crate::{Instant, Loss};

/// When every kept lease is due.
///
/// Rules: renew every third of a lease; while answers are missing try again after a thirtieth, sooner when
/// little is left, until the window shuts; never past the hold limit; never after removal.
#[derive(Debug, Default)]
pub struct Schedule {
    kept: HashMap<u64, Entry>,
    queue: BTreeSet<(Instant, u64)>,
}

/// How one lease wants to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What the lessor keeps without news from us.
    pub lease: Duration,
    /// Until when the lease stands if nothing more is heard.
    pub until: Instant,
    /// The instant after which it must not be renewed, if there is one.
    pub hold_until: Option<Instant>,
}

/// What to do now with one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Ask the lessor to renew it for so long.
    Renew(u64, Duration),
    /// Give it up: it is no longer in the schedule.
    End(u64, Loss),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    terms: Terms,
    next: Instant,
}

impl Schedule {
    /// Keeps a lease from now on.
    pub fn add(&mut self, id: u64, terms: Terms, now: Instant) {
        let next = terms.next_renewal(now);
        match self.kept.insert(id, Entry { terms, next }) {
            // Handed on, most often: it has its place.
            Some(old) if old.next == next => return,
            Some(old) => drop(self.queue.remove(&(old.next, id))),
            None => {}
        }
        self.queue.insert((next, id));
    }

    /// Keeps it no longer; true if it was kept.
    pub fn remove(&mut self, id: u64) -> bool {
        match self.kept.remove(&id) {
            Some(entry) => self.queue.remove(&(entry.next, id)),
            None => false,
        }
    }

    /// The lessor answered: the lease now stands until `until`. No answer: call nothing.
    pub fn renewed(&mut self, id: u64, until: Instant, now: Instant) {
        if let Some(entry) = self.kept.get(&id) {
            self.add(id, Terms { until, ..entry.terms }, now);
        }
    }

    /// It is lost, and renewed no more; due once again, to be given up at `until`.
    pub fn linger(&mut self, id: u64, until: Instant) {
        // Without a lease nothing is left to ask for before that.
        let terms = Terms { lease: Duration::ZERO, until, hold_until: Some(until) };
        self.remove(id);
        self.kept.insert(id, Entry { terms, next: until });
        self.queue.insert((until, id));
    }

    /// Takes up to `most` acts that are due at `now`.
    pub fn due(&mut self, now: Instant, most: usize) -> Vec<Due> {
        let mut acts = Vec::new();
        while acts.len() < most
            && let Some(&(next, id)) = self.queue.first()
            && next <= now
        {
            self.queue.pop_first();
            let Some(entry) = self.kept.get_mut(&id) else { continue };
            if let Some(loss) = entry.terms.ended(now) {
                self.kept.remove(&id);
                acts.push(Due::End(id, loss));
                continue;
            }
            // Until an answer moves it, the next try is a short while away.
            let renewable = entry.terms.renewable(now);
            entry.next = entry.terms.bounded(match renewable {
                Some(_) => now + entry.terms.again(now, 3),
                None => entry.terms.until,
            });
            self.queue.insert((entry.next, id));
            acts.extend(renewable.map(|lease| Due::Renew(id, lease)));
        }
        acts
    }

    /// The instant at which something is due next.
    pub fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// How many leases are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

impl Terms {
    /// A third of the lease after the last confirmed ask; that ask lies (nearly) a lease before
    /// `until`. Soon, if that has passed.
    fn next_renewal(&self, now: Instant) -> Instant {
        let third = self.until - self.lease * 2 / 3;
        self.bounded(if third > now { third } else { now + self.again(now, 10) })
    }

    /// After a thirtieth of the lease, or this part of what is left of it: one that was handed over begins
    /// with little.
    fn again(&self, now: Instant, part: u32) -> Duration {
        let most = self.lease / RETRIES_PER_LEASE;
        most.min(self.until.since(now) / part).max(most / 10)
    }

    /// We must look again when the window shuts or the hold limit comes, whichever is first.
    fn bounded(&self, at: Instant) -> Instant {
        at.min(self.until).min(self.hold_until.unwrap_or(self.until))
    }

    /// Whether, and why, a lease with these terms has ended at `now`.
    pub fn ended(&self, now: Instant) -> Option<Loss> {
        if self.hold_until.is_some_and(|limit| limit <= now) {
            return Some(Loss::HoldLimit);
        }
        (self.until <= now).then_some(self.loss_at_end())
    }

    /// Why a lease with these terms ends if it is renewed no more.
    pub fn loss_at_end(&self) -> Loss {
        if self.reaches_limit() { Loss::HoldLimit } else { Loss::WindowShut }
    }

    /// For how long to renew at `now`, never past the hold limit; `None` if that gains nothing.
    fn renewable(&self, now: Instant) -> Option<Duration> {
        match self.hold_until {
            Some(_) if self.reaches_limit() => None,
            Some(limit) => Some(self.lease.min(limit.since(now))),
            None => Some(self.lease),
        }
    }

    /// Whether the lease already stands to its hold limit, but for the allowance for drift.
    fn reaches_limit(&self) -> bool {
        self.hold_until.is_some_and(|limit| limit.since(self.until) <= self.lease / 10)
    }
}

const RETRIES_PER_LEASE: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    const LEASE: Duration = Duration::from_secs(30);

    struct Table {
        clock: Clock,
        schedule: Schedule,
    }

    impl Table {
        fn with(hold: Option<Duration>) -> Self {
            let clock = Clock::manual();
            let now = clock.now();
            let lease = hold.map_or(LEASE, |h| h.min(LEASE));
            let until = crate::expiry(now, lease, 0.01);
            let terms = Terms { lease, until, hold_until: hold.map(|limit| now + limit) };
            let mut schedule = Schedule::default();
            schedule.add(1, terms, now);
            Self { clock, schedule }
        }

        fn step(&mut self, by: Duration) -> Vec<Due> {
            self.clock.advance(by);
            self.schedule.due(self.clock.now(), 100)
        }
    }

    #[test]
    fn renewed_every_third_of_a_lease() {
        let mut t = Table::with(None);
        assert_eq!(t.step(LEASE * 3 / 10), []);
        assert_eq!(t.step(LEASE / 30), [Due::Renew(1, LEASE)]);
        let now = t.clock.now();
        t.schedule.renewed(1, now + LEASE, now);
        assert_eq!(t.schedule.next(), Some(now + LEASE / 3));
    }

    #[test]
    fn without_answers_it_tries_on_until_the_window_shuts_and_then_ends() {
        let mut t = Table::with(None);
        let mut tries = t.step(LEASE / 3).len();
        let mut end = Vec::new();
        while end.is_empty() {
            let next = t.schedule.next().expect("still kept");
            let acts = t.step(next.since(t.clock.now()));
            tries += acts.iter().filter(|d| matches!(d, Due::Renew(..))).count();
            end.extend(acts.into_iter().filter(|d| matches!(d, Due::End(..))));
        }
        assert_eq!(end, [Due::End(1, Loss::WindowShut)]);
        assert!((15..=27).contains(&tries), "{tries} tries in two thirds of a lease");
        assert!(t.schedule.is_empty());
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn a_definite_setback_is_answered_soon() {
        let mut t = Table::with(None);
        let now = t.clock.now();
        // A node said no: the window is now only 5 s long.
        t.schedule.renewed(1, now + LEASE / 6, now);
        assert_eq!(t.schedule.next(), Some(now + LEASE / 60));
    }

    #[test]
    fn never_past_the_hold_limit() {
        let limit = LEASE + LEASE / 2;
        let mut t = Table::with(Some(limit));
        let start = t.clock.now();
        assert_eq!(t.step(LEASE / 3), [Due::Renew(1, LEASE)]);
        let now = t.clock.now();
        t.schedule.renewed(1, now + LEASE, now);
        // At two thirds only 25 s are left of the 45.
        let rest = limit - LEASE * 2 / 3;
        assert_eq!(t.step(LEASE / 3), [Due::Renew(1, rest)]);
        let now = t.clock.now();
        t.schedule.renewed(1, crate::expiry(now, rest, 0.01), now);
        let mut acts = Vec::new();
        while let Some(next) = t.schedule.next() {
            acts.extend(t.step(next.since(t.clock.now())));
        }
        assert_eq!(acts, [Due::End(1, Loss::HoldLimit)]);
        assert!(t.clock.now().since(start) <= limit);
    }

    #[test]
    fn a_short_hold_is_never_renewed() {
        let hold = Duration::from_secs(5);
        let mut t = Table::with(Some(hold));
        let start = t.clock.now();
        let mut acts = Vec::new();
        while let Some(next) = t.schedule.next() {
            acts.extend(t.step(next.since(t.clock.now())));
        }
        assert_eq!(acts, [Due::End(1, Loss::HoldLimit)]);
        assert!(t.clock.now().since(start) <= hold);
    }

    #[test]
    fn what_lingers_is_never_renewed_and_given_up_once() {
        let mut t = Table::with(None);
        let until = t.clock.now() + LEASE;
        t.schedule.linger(1, until);
        assert_eq!(t.step(LEASE * 9 / 10), []);
        assert_eq!(t.schedule.next(), Some(until));
        assert!(matches!(t.step(LEASE / 10)[..], [Due::End(1, _)]));
        assert!(t.schedule.is_empty());
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_is_handed_on_is_renewed_once_and_when_it_was_to_be() {
        let mut t = Table::with(None);
        let planned = t.schedule.next();
        let now = t.clock.now();
        let terms =
            Terms { lease: LEASE, until: crate::expiry(now, LEASE, 0.01), hold_until: None };
        t.clock.advance(LEASE / 10);
        t.schedule.add(1, terms, t.clock.now());
        assert_eq!((t.schedule.next(), t.schedule.len()), (planned, 1));
        // Its next holder may hold it for less.
        let limit = now + LEASE / 5;
        t.schedule.add(1, Terms { hold_until: Some(limit), ..terms }, t.clock.now());
        assert_eq!((t.schedule.next(), t.schedule.len()), (Some(limit), 1));
        assert_eq!(t.step(LEASE / 10), [Due::End(1, Loss::HoldLimit)]);
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_was_removed_is_never_renewed() {
        let mut t = Table::with(None);
        assert!(t.schedule.remove(1));
        assert!(!t.schedule.remove(1));
        t.schedule.renewed(1, t.clock.now() + LEASE, t.clock.now());
        assert_eq!(t.step(LEASE * 2), []);
        assert_eq!(t.schedule.len(), 0);
    }

    #[test]
    fn batches_are_bounded() {
        let clock = Clock::manual();
        let now = clock.now();
        let mut schedule = Schedule::default();
        for id in 0..250 {
            schedule.add(id, Terms { lease: LEASE, until: now + LEASE, hold_until: None }, now);
        }
        clock.advance(LEASE / 3);
        let sizes: Vec<_> = (0..4).map(|_| schedule.due(clock.now(), 100).len()).collect();
        assert_eq!(sizes, [100, 100, 50, 0]);
    }
}
