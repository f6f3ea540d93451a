//! Pure: when each lease is renewed, and when it is given up.
//!
//! It reads no clock, and uses no task and no random source: `now` is an argument, so every rule is
//! tested without sleeping. Each lease itself tells its timing, which is stored nowhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::LeaseState;
use quorumlock_protocol::{Instant, LossReason, Nonce};

/// A lease that a [`Watchdog`](crate::Watchdog) can renew.
pub trait WatchedLease: Send + Sync + 'static {
    /// The lease's id, unique among the leases of one watchdog.
    fn id(&self) -> u64;
    /// Under which nonce the nodes hold it.
    fn nonce(&self) -> Nonce;
    /// Whether the lease is valid, and its timing for renewals.
    fn state(&self) -> &LeaseState;
}

/// The watched leases, and when each is due.
///
/// Rules: renew every third of a lease. While answers are missing, try again after a thirtieth of a
/// lease, sooner when little of it is left, until the window shuts. Never renew past the hold
/// limit, or after loss or removal.
pub struct Schedule<L> {
    entries: HashMap<u64, Entry<L>>,
    queue: BTreeSet<(Instant, u64)>,
}

/// From a message about a forced release to the question. The release reaches the nodes of a quorum one
/// after the other: a node that has not carried it out yet would say yes, and those that have would be
/// granted the lease again.
const FORCED_DELAY: Duration = Duration::from_millis(100);

fn forced_delay(lease: &impl WatchedLease, now: Instant) -> Duration {
    lease.state().timing().again(now, 3).min(FORCED_DELAY)
}

/// What to do now with one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// Ask the lessor to renew the lease with this id for this duration.
    Renew(u64, Duration),
    /// Give the lease up: it is not due again, and stays in the table until it is removed.
    End(u64, LossReason),
}

/// A lease, and when it is due.
struct Entry<L> {
    lease: Arc<L>,
    next: Instant,
}

impl<L: WatchedLease> Schedule<L> {
    /// Watches a lease from now on; it replaces a lease with the same id.
    pub fn add(&mut self, lease: Arc<L>, now: Instant) {
        let (id, next) = (lease.id(), lease.state().timing().next_renewal(now));
        match self.entries.insert(id, Entry { lease, next }) {
            // Most often a local handoff, after which the lease is due at the same instant.
            Some(old) if old.next == next => return,
            Some(old) => drop(self.queue.remove(&(old.next, id))),
            None => {}
        }
        self.queue.insert((next, id));
    }

    /// Stops watching a lease; returns it if it was watched.
    pub fn remove(&mut self, id: u64) -> Option<Arc<L>> {
        let Entry { lease, next } = self.entries.remove(&id)?;
        self.queue.remove(&(next, id));
        Some(lease)
    }

    /// The watched lease with this id.
    pub fn get(&self, id: u64) -> Option<&Arc<L>> {
        self.entries.get(&id).map(|kept| &kept.lease)
    }

    /// The lessor answered, and the end of the lease was moved. Without an answer, do not call
    /// this.
    pub fn renewed(&mut self, id: u64, now: Instant) {
        self.place(id, |lease| {
            let next = lease.state().timing().next_renewal(now);
            match lease.state().must_ask() {
                true => next.min(now + forced_delay(lease, now)),
                false => next,
            }
        });
    }

    /// A message says that somebody released the lease with this nonce by force: it is renewed soon, which
    /// asks the nodes whether they still hold it.
    pub fn said_forced(&mut self, nonce: Nonce, now: Instant) {
        let says = |lease: &L| lease.nonce() == nonce && lease.state().hear_forced(now);
        let found: Vec<_> = self
            .entries
            .values()
            .filter(|kept| says(&kept.lease))
            .map(|kept| kept.lease.id())
            .collect();
        for id in found {
            let Some(planned) = self.entries.get(&id).map(|kept| kept.next) else { continue };
            self.place(id, |lease| planned.min(now + forced_delay(lease, now)));
        }
    }

    /// The lease is lost and must not be renewed; it is due once more, to be given up at `until`.
    pub fn defer_release(&mut self, id: u64, until: Instant) {
        self.place(id, |_| until);
    }

    /// Takes up to `most` actions that are due at `now`.
    pub fn due(&mut self, now: Instant, most: usize) -> Vec<TimerAction> {
        let mut acts = Vec::new();
        while acts.len() < most
            && let Some(&(next, id)) = self.queue.first()
            && next <= now
        {
            self.queue.pop_first();
            let Some(kept) = self.entries.get_mut(&id) else { continue };
            let state = kept.lease.state();
            let timing = state.timing();
            if let Some(loss) = state.loss().or_else(|| timing.ended(now)) {
                acts.push(TimerAction::End(id, loss));
                continue;
            }
            // Unless an answer moves it, the next try follows shortly.
            let renewable = match state.must_ask() {
                true => Some(timing.longest(now)),
                false => timing.renewable(now),
            };
            kept.next = timing.bounded(match renewable {
                Some(_) => now + timing.again(now, 3),
                None => timing.until,
            });
            self.queue.insert((kept.next, id));
            if let Some(lease) = renewable {
                state.renewal_sent();
                acts.push(TimerAction::Renew(id, lease));
            }
        }
        acts
    }

    /// The instant at which the next lease is due.
    pub fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// How many leases are watched.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no lease is watched.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn place(&mut self, id: u64, next: impl FnOnce(&L) -> Instant) {
        if let Some(kept) = self.entries.get_mut(&id) {
            self.queue.remove(&(kept.next, id));
            kept.next = next(&kept.lease);
            self.queue.insert((kept.next, id));
        }
    }
}

impl<L> Default for Schedule<L> {
    fn default() -> Self {
        Self { entries: HashMap::default(), queue: BTreeSet::new() }
    }
}

impl<L> fmt::Debug for Schedule<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("queue", &self.queue).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use quorumlock_protocol::LeaseTiming;

    use super::*;
    use crate::{Clock, LeaseState};

    const LEASE: Duration = Duration::from_secs(30);

    #[derive(Debug)]
    struct Lease(u64, LeaseState);

    impl WatchedLease for Lease {
        fn id(&self) -> u64 {
            self.0
        }

        fn nonce(&self) -> Nonce {
            Nonce::from_u128(self.0.into())
        }

        fn state(&self) -> &LeaseState {
            &self.1
        }
    }

    struct Table {
        clock: Clock,
        schedule: Schedule<Lease>,
    }

    impl Table {
        /// A schedule with one lease, id 1, requested now.
        fn with(hold: Option<Duration>) -> Self {
            let mut table = Self { clock: Clock::manual(), schedule: Schedule::default() };
            let now = table.clock.now();
            let lease = hold.map_or(LEASE, |h| h.min(LEASE));
            let until = quorumlock_protocol::expiry(now, lease, 0.01);
            table.add(1, LeaseTiming { lease, until, hold_until: hold.map(|limit| now + limit) });
            table
        }

        fn add(&mut self, id: u64, timing: LeaseTiming) {
            let lease = Lease(id, LeaseState::new(self.clock.clone(), timing));
            self.schedule.add(Arc::new(lease), self.clock.now());
        }

        fn renewed(&mut self, until: Instant) {
            self.schedule.get(1).expect("kept").1.renew(until).expect("it stands");
            self.schedule.renewed(1, self.clock.now());
        }

        /// Acts as the watchdog does: removes leases that have ended.
        fn step(&mut self, by: Duration) -> Vec<TimerAction> {
            self.clock.advance(by);
            let acts = self.schedule.due(self.clock.now(), 100);
            for act in &acts {
                if let TimerAction::End(id, _) = act {
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
        assert_eq!(t.step(LEASE / 30), [TimerAction::Renew(1, LEASE)]);
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
            tries += acts.iter().filter(|d| matches!(d, TimerAction::Renew(..))).count();
            end.extend(acts.into_iter().filter(|d| matches!(d, TimerAction::End(..))));
        }
        assert_eq!(end, [TimerAction::End(1, LossReason::WindowShut)]);
        assert!((15..=27).contains(&tries), "{tries} tries in two thirds of a lease");
        assert!(t.schedule.is_empty());
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn failing_renewals_are_told_while_half_of_the_lease_is_left() {
        let mut t = Table::with(None);
        let at_risk = |t: &Table| t.schedule.get(1).expect("kept").1.is_at_risk();
        while !at_risk(&t) {
            let next = t.until_next().expect("still kept");
            assert!(t.step(next).iter().all(|act| matches!(act, TimerAction::Renew(..))));
        }
        let left = t.schedule.get(1).expect("kept").1.valid_for();
        assert!((LEASE * 48 / 100..=LEASE / 2).contains(&left), "{left:?}");
        t.renewed(t.clock.now() + LEASE);
        assert!(!at_risk(&t));
    }

    #[test]
    fn a_definite_setback_is_answered_soon() {
        let mut t = Table::with(None);
        // A node denied the renewal: the window is now only 5 s long.
        t.renewed(t.clock.now() + LEASE / 6);
        assert_eq!(t.until_next(), Some(LEASE / 60));
    }

    #[test]
    fn never_past_the_hold_limit() {
        let limit = LEASE + LEASE / 2;
        let mut t = Table::with(Some(limit));
        let start = t.clock.now();
        assert_eq!(t.step(LEASE / 3), [TimerAction::Renew(1, LEASE)]);
        t.renewed(t.clock.now() + LEASE);
        // At two thirds of the lease, only 25 s of the 45 are left.
        let rest = limit - LEASE * 2 / 3;
        assert_eq!(t.step(LEASE / 3), [TimerAction::Renew(1, rest)]);
        t.renewed(quorumlock_protocol::expiry(t.clock.now(), rest, 0.01));
        let mut acts = Vec::new();
        while let Some(next) = t.until_next() {
            acts.extend(t.step(next));
        }
        assert_eq!(acts, [TimerAction::End(1, LossReason::HoldLimit)]);
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
        assert_eq!(acts, [TimerAction::End(1, LossReason::HoldLimit)]);
        assert!(t.clock.now().since(start) <= hold);
    }

    #[test]
    fn what_is_said_to_be_forced_is_asked_for_soon_and_ends_only_by_the_answer() {
        let mut t = Table::with(None);
        let nonce = Nonce::from_u128(1);
        t.schedule.said_forced(Nonce::from_u128(2), t.clock.now());
        assert!(t.until_next() > Some(LEASE / 4), "another lease");
        t.schedule.said_forced(nonce, t.clock.now());
        assert_eq!(t.until_next(), Some(FORCED_DELAY));
        assert_eq!(t.step(FORCED_DELAY / 2), []);
        t.schedule.said_forced(nonce, t.clock.now());
        assert_eq!(t.until_next(), Some(FORCED_DELAY / 2), "a second message delays nothing");
        assert_eq!(t.step(FORCED_DELAY / 2), [TimerAction::Renew(1, LEASE)]);
        for _ in 1..3 {
            t.renewed(t.clock.now() + LEASE);
            assert_eq!(t.until_next(), Some(FORCED_DELAY));
            assert_eq!(t.step(FORCED_DELAY), [TimerAction::Renew(1, LEASE)]);
        }
        // The message was wrong.
        t.renewed(t.clock.now() + LEASE);
        assert_eq!(t.until_next(), Some(LEASE / 3));
        let state = &t.schedule.get(1).expect("kept").1;
        assert_eq!(state.check(), Ok(()));
        // A loss much later has another reason.
        t.clock.advance(LEASE / 3);
        let state = &t.schedule.get(1).expect("kept").1;
        assert_eq!(state.end(LossReason::Gone), LossReason::Gone);
        t.schedule.said_forced(nonce, t.clock.now());
        let told = [TimerAction::End(1, LossReason::Gone)];
        assert_eq!(t.step(FORCED_DELAY), told, "what is lost is not renewed");
    }

    #[test]
    fn a_hold_that_is_never_renewed_is_asked_for_once_and_not_past_its_limit() {
        let mut t = Table::with(Some(LEASE / 2));
        t.schedule.said_forced(Nonce::from_u128(1), t.clock.now());
        let rest = LEASE / 2 - FORCED_DELAY;
        assert_eq!(t.step(FORCED_DELAY), [TimerAction::Renew(1, rest)]);
        let state = &t.schedule.get(1).expect("kept").1;
        assert_eq!(state.end(LossReason::Gone), LossReason::Forced, "the nodes have said no");
    }

    #[test]
    fn what_lingers_is_never_renewed_and_given_up_once() {
        let mut t = Table::with(None);
        let until = t.clock.now() + LEASE;
        t.schedule.get(1).expect("kept").1.end(LossReason::Gone);
        t.schedule.defer_release(1, until);
        assert_eq!(t.step(LEASE * 9 / 10), []);
        assert_eq!(t.until_next(), Some(LEASE / 10));
        assert_eq!(t.step(LEASE / 10), [TimerAction::End(1, LossReason::Gone)]);
        assert!(t.schedule.is_empty());
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_is_lost_is_given_up_instead_of_renewed() {
        let mut t = Table::with(None);
        // Released by its holder, without a call to the schedule.
        t.schedule.get(1).expect("kept").1.end(LossReason::Released);
        assert_eq!(t.step(LEASE / 3), [TimerAction::End(1, LossReason::Released)]);
    }

    #[test]
    fn what_is_handed_on_is_renewed_once_and_when_it_was_to_be() {
        let mut t = Table::with(None);
        let planned = t.schedule.next();
        let now = t.clock.now();
        let timing = LeaseTiming {
            lease: LEASE,
            until: quorumlock_protocol::expiry(now, LEASE, 0.01),
            hold_until: None,
        };
        t.clock.advance(LEASE / 10);
        t.add(1, timing);
        assert_eq!((t.schedule.next(), t.schedule.len()), (planned, 1));
        // The next holder may have an earlier hold limit.
        let limit = now + LEASE / 5;
        t.add(1, LeaseTiming { hold_until: Some(limit), ..timing });
        assert_eq!((t.schedule.next(), t.schedule.len()), (Some(limit), 1));
        assert_eq!(t.step(LEASE / 10), [TimerAction::End(1, LossReason::HoldLimit)]);
        assert_eq!(t.schedule.next(), None);
    }

    #[test]
    fn what_was_removed_is_never_renewed() {
        let mut t = Table::with(None);
        assert!(t.schedule.remove(1).is_some());
        assert!(t.schedule.remove(1).is_none());
        t.schedule.renewed(1, t.clock.now());
        t.schedule.defer_release(1, t.clock.now());
        assert_eq!(t.step(LEASE * 2), []);
        assert_eq!((t.schedule.len(), t.schedule.next()), (0, None));
    }

    #[test]
    fn batches_are_bounded() {
        let mut t = Table::with(None);
        for id in 1..=250 {
            t.add(id, LeaseTiming { lease: LEASE, until: t.clock.now() + LEASE, hold_until: None });
        }
        t.clock.advance(LEASE / 3);
        let sizes: Vec<_> = (0..4).map(|_| t.schedule.due(t.clock.now(), 100).len()).collect();
        assert_eq!(sizes, [100, 100, 50, 0]);
    }
}
