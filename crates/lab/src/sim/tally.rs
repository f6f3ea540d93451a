use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::invariants::Invariant;
use super::mutants::Bug;
use super::run::{Outcome, run};
use super::sometimes::{Seen, Sometimes};

/// What became of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many were run.
    pub seeds: u64,
    /// Events in all of them.
    pub events: u64,
    /// Those in which a guarantee fell.
    pub violations: Vec<Outcome>,
    /// How many seeds showed a guarantee falling with an assumption that it needs.
    pub expected: BTreeMap<Invariant, u64>,
    /// What happened in any of them.
    pub seen: Seen,
}

/// A planted bug, found.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The bug.
    pub bug: Bug,
    /// Where it showed.
    pub outcome: Outcome,
    /// How many seeds were run for it.
    pub tried: u64,
}

/// Runs `count` seeds from `first` on, on so many threads.
#[must_use]
pub fn run_all(first: u64, count: u64, jobs: usize) -> Tally {
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let outcome = run(first + at, None, 0);
                    tally.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.violations.sort_by_key(|outcome| outcome.seed);
    tally
}

/// A seed that most likely nobody has begun with yet, of the operating system's random source.
#[must_use]
pub fn fresh_start() -> u64 {
    u64::from(rand::random::<u32>()) << 24
}

/// Looks for a planted bug in seeds from `first` on, `most` of them at most.
#[must_use]
pub fn hunt(bug: Bug, first: u64, most: u64, jobs: usize) -> Option<Catch> {
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let catches = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !found.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= most {
                        return;
                    }
                    let outcome = run(first + at, Some(bug), 0);
                    if outcome.violation.is_some() {
                        found.store(true, Ordering::Relaxed);
                        let catch = Catch { bug, outcome, tried: at + 1 };
                        catches.lock().unwrap_or_else(PoisonError::into_inner).push(catch);
                    }
                }
            });
        }
    });
    let catches = catches.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The lowest seed, so that the answer does not depend on the threads.
    catches.into_iter().min_by_key(|catch| catch.tried)
}

impl Tally {
    /// Guarantees that never fell although what they need was broken: would the lab see it?
    pub fn unseen_breaks(&self) -> Vec<Invariant> {
        let breakable = Invariant::ALL.into_iter().filter(|which| !which.needs().is_empty());
        breakable.filter(|which| !self.expected.contains_key(which)).collect()
    }

    /// What should have happened in some run and did in none.
    pub fn never_seen(&self) -> Vec<Sometimes> {
        self.seen.missing()
    }

    /// What became of other seeds as well.
    pub fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.violations.extend(other.violations);
        self.seen = self.seen.and(other.seen);
        for (invariant, seeds) in other.expected {
            *self.expected.entry(invariant).or_default() += seeds;
        }
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.seen = self.seen.and(outcome.seen);
        for invariant in &outcome.expected {
            *self.expected.entry(*invariant).or_default() += 1;
        }
        if outcome.violation.is_some() {
            self.violations.push(outcome);
        }
    }
}
