//! Pure: which lease is renewed at what instant, and when it is given up.
//!
//! No clock is read, no task and no random source: `now` is an argument, so every rule is tested without
//! sleeping. Leases say themselves what their terms are: they are written down nowhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::{Instant, Leased, Loss};

/// The kept leases, and when each is due.
///
/// Rules: renew every third of a lease; while answers are missing try again after a thirtieth, sooner when
/// little is left, until the window shuts; never past the hold limit; never after loss or removal.
pub struct Schedule<L> {
    kept: HashMap<u64, Kept<L>>,
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
    /// Give it up: it is due no more, and kept until it is removed.
    End(u64, Loss),
}

/// A lease, and its place in the queue.
struct Kept<L> {
    lease: Arc<L>,
    next: Instant,
}

impl<L: Leased> Schedule<L> {
    /// Keeps a lease from now on, instead of another one with its id.
    pub fn add(&mut self, lease: Arc<L>, now: Instant) {
        let (id, next) = (lease.id(), lease.standing().terms().next_renewal(now));
        match self.kept.insert(id, Kept { lease, next }) {
            // Handed on, most often: it has its place.
            Some(old) if old.next == next => return,
            Some(old) => drop(self.queue.remove(&(old.next, id))),
            None => {}
        }
        self.queue.insert((next, id));
    }

    /// Keeps it no longer; the lease if it was kept.
    pub fn remove(&mut self, id: u64) -> Option<Arc<L>> {
        let Kept { lease, next } = self.kept.remove(&id)?;
        self.queue.remove(&(next, id));
        Some(lease)
    }

    /// The lease that is kept by this id.
    pub fn get(&self, id: u64) -> Option<&Arc<L>> {
        self.kept.get(&id).map(|kept| &kept.lease)
    }

    /// The lessor answered, and moved the end of the lease. No answer: call nothing.
    pub fn renewed(&mut self, id: u64, now: Instant) {
        self.place(id, |lease| lease.standing().terms().next_renewal(now));
    }

    /// It is lost, and renewed no more; due once again, to be given up at `until`.
    pub fn linger(&mut self, id: u64, until: Instant) {
        self.place(id, |_| until);
    }

    /// Takes up to `most` acts that are due at `now`.
    pub fn due(&mut self, now: Instant, most: usize) -> Vec<Due> {
        let mut acts = Vec::new();
        while acts.len() < most
            && let Some(&(next, id)) = self.queue.first()
            && next <= now
        {
            self.queue.pop_first();
            let Some(kept) = self.kept.get_mut(&id) else { continue };
            let standing = kept.lease.standing();
            let terms = standing.terms();
            if let Some(loss) = standing.loss().or_else(|| terms.ended(now)) {
                acts.push(Due::End(id, loss));
                continue;
            }
            // Until an answer moves it, the next try is a short while away.
            let renewable = terms.renewable(now);
            kept.next = terms.bounded(match renewable {
                Some(_) => now + terms.again(now, 3),
                None => terms.until,
            });
            self.queue.insert((kept.next, id));
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

    fn place(&mut self, id: u64, next: impl FnOnce(&L) -> Instant) {
        if let Some(kept) = self.kept.get_mut(&id) {
            self.queue.remove(&(kept.next, id));
            kept.next = next(&kept.lease);
            self.queue.insert((kept.next, id));
        }
    }
}

impl<L> Default for Schedule<L> {
    fn default() -> Self {
        Self { kept: HashMap::default(), queue: BTreeSet::new() }
    }
}

impl<L> fmt::Debug for Schedule<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("queue", &self.queue).finish_non_exhaustive()
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
    use crate::{Clock, Standing};

    const LEASE: Duration = Duration::from_secs(30);

    #[derive(Debug)]
    struct Lease(u64, Standing);

    impl Leased for Lease {
        fn id(&self) -> u64 {
            self.0
        }

        fn standing(&self) -> &Standing {
            &self.1
        }
    }

    struct Table {
        clock: Clock,
        schedule: Schedule<Lease>,
    }

    impl Table {
        /// Keeps a lease by the id 1, asked for now.
        fn with(hold: Option<Duration>) -> Self {
            let mut table = Self { clock: Clock::manual(), schedule: Schedule::default() };
            let now = table.clock.now();
            let lease = hold.map_or(LEASE, |h| h.min(LEASE));
            let until = crate::expiry(now, lease, 0.01);
            table.add(1, Terms { lease, until, hold_until: hold.map(|limit| now + limit) });
            table
        }

        fn add(&mut self, id: u64, terms: Terms) {
            let lease = Lease(id, Standing::new(self.clock.clone(), terms));
            self.schedule.add(Arc::new(lease), self.clock.now());
        }

        fn renewed(&mut self, until: Instant) {
            self.schedule.get(1).expect("kept").1.renew(until).expect("it stands");
            self.schedule.renewed(1, self.clock.now());
        }

        /// As the keeper does: what has ended is given up.
        fn step(&mut self, by: Duration) -> Vec<Due> {
            self.clock.advance(by);
            let acts = self.schedule.due(self.clock.now(), 100);
            for act in &acts {
                if let Due::End(id, _) = act {
                    self.schedule.remove(*id);
                }
            }
            acts
        }

        fn until_next(&self) -> Option<Duration> {
            self.schedule.next().map(|next| next.since(self.clock.now()))
        }
    }

    #[test]
    fn renewed_every_third_of_a_lease() {
        let mut t = Table::with(None);
        assert_eq!(t.step(LEASE * 3 / 10), []);
        assert_eq!(t.step(LEASE / 30), [Due::Renew(1, LEASE)]);
        t.renewed(t.clock.now() + LEASE);
        assert_eq!(t.until_next(), Some(LEASE / 3));
    }

    #[test]
    fn without_answers_it_tries_on_until_the_window_shuts_and_then_ends() {
        let mut t = Table::with(None);
        let mut tries = t.step(LEASE / 3).len();
        let mut end = Vec::new();
        while end.is_empty() {
            let next = t.until_next().expect("still kept");
            let acts = t.step(next);
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
        // A node said no: the window is now only 5 s long.
        t.renewed(t.clock.now() + LEASE / 6);
        assert_eq!(t.until_next(), Some(LEASE / 60));
    }

    #[test]
    fn never_past_the_hold_limit() {
        let limit = LEASE + LEASE / 2;
        let mut t = Table::with(Some(limit));
        let start = t.clock.now();
        assert_eq!(t.step(LEASE / 3), [Due::Renew(1, LEASE)]);
        t.renewed(t.clock.now() + LEASE);
        // At two thirds only 25 s are left of the 45.
        let rest = limit - LEASE * 2 / 3;
        assert_eq!(t.step(LEASE / 3), [Due::Renew(1, rest)]);
        t.renewed(crate::expiry(t.clock.now(), rest, 0.01));
        let mut acts = Vec::new();
        while let Some(next) = t.until_next() {
            acts.extend(t.step(next));
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
        while let Some(next) = t.until_next() {
            acts.extend(t.step(next));
        }
        assert_eq!(acts, [Due::End(1, Loss::HoldLimit)]);
        assert!(t.clock.now().since(start) <= hold);
    }

    #[test]
    fn what_lingers_is_never_renewed_and_given_up_once() {
        let mut t = Table::with(None);
        let until = t.clock.now() + LEASE;
        t.schedule.get(1).expect("kept").1.end(Loss::Gone);
        t.schedule.linger(1, until);
        assert_eq!(t.step(LEASE * 9 / 10), []);
        assert_eq!(t.until_next(), Some(LEASE / 10));
        assert_eq!(t.step(LEASE / 10), [Due::End(1, Loss::Gone)]);
        assert!(t.schedule.is_empty());
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_is_lost_is_given_up_instead_of_renewed() {
        let mut t = Table::with(None);
        // By its holder, of whom we have not heard.
        t.schedule.get(1).expect("kept").1.end(Loss::Released);
        assert_eq!(t.step(LEASE / 3), [Due::End(1, Loss::Released)]);
    }

    #[test]
    fn what_is_handed_on_is_renewed_once_and_when_it_was_to_be() {
        let mut t = Table::with(None);
        let planned = t.schedule.next();
        let now = t.clock.now();
        let terms =
            Terms { lease: LEASE, until: crate::expiry(now, LEASE, 0.01), hold_until: None };
        t.clock.advance(LEASE / 10);
        t.add(1, terms);
        assert_eq!((t.schedule.next(), t.schedule.len()), (planned, 1));
        // Its next holder may hold it for less.
        let limit = now + LEASE / 5;
        t.add(1, Terms { hold_until: Some(limit), ..terms });
        assert_eq!((t.schedule.next(), t.schedule.len()), (Some(limit), 1));
        assert_eq!(t.step(LEASE / 10), [Due::End(1, Loss::HoldLimit)]);
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_was_removed_is_never_renewed() {
        let mut t = Table::with(None);
        assert!(t.schedule.remove(1).is_some());
        assert!(t.schedule.remove(1).is_none());
        t.schedule.renewed(1, t.clock.now());
        t.schedule.linger(1, t.clock.now());
        assert_eq!(t.step(LEASE * 2), []);
        assert_eq!((t.schedule.len(), t.schedule.next()), (0, None));
    }

    #[test]
    fn batches_are_bounded() {
        let mut t = Table::with(None);
        for id in 1..=250 {
            t.add(id, Terms { lease: LEASE, until: t.clock.now() + LEASE, hold_until: None });
        }
        t.clock.advance(LEASE / 3);
        let sizes: Vec<_> = (0..4).map(|_| t.schedule.due(t.clock.now(), 100).len()).collect();
        assert_eq!(sizes, [100, 100, 50, 0]);
    }
}
