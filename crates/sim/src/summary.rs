use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::bug::Bug;
use super::plan::Plan;
use super::run::{Outcome, run};
use super::sometimes::{Seen, Sometimes};
use super::violation::Invariant;

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
pub struct SeedSummary {
    /// The number of seeds that were run.
    pub seeds: u64,
    /// The number of events in all runs.
    pub events: u64,
    /// The hashes of all traces combined, independent of the order of the runs.
    pub traces: u64,
    /// The runs in which a guarantee failed although its assumptions held.
    pub violations: Vec<Outcome>,
    /// Per guarantee: the number of seeds in which it failed after an assumption it needs was
    /// broken.
    pub expected: BTreeMap<Invariant, u64>,
    /// The situations that were seen in at least one run.
    pub seen: Seen,
}

/// A planted bug, found.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The bug.
    pub bug: Bug,
    /// The run that showed it.
    pub outcome: Outcome,
    /// The number of seeds up to that run, counted from the first seed.
    pub tried: u64,
}

/// Runs `count` seeds from `first` on, on `jobs` threads.
#[must_use]
pub fn run_all(first: u64, count: u64, jobs: usize) -> SeedSummary {
    let (next, tally) = (AtomicU64::new(0), Mutex::new(SeedSummary::default()));
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

/// A random first seed from the operating system's random source, so that runs most likely try new
/// seeds.
#[must_use]
pub fn fresh_start() -> u64 {
    u64::from(rand::random::<u32>()) << 24
}

/// Searches for a planted bug in at most `most` seeds from `first` on, on `jobs` threads.
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
                    if !bug.shows_in(&Plan::of(first + at)) {
                        continue;
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
    // The lowest seed wins: every lower seed was begun before and is run to its end, so the result
    // does not depend on the threads.
    catches.into_iter().min_by_key(|catch| catch.tried)
}

impl SeedSummary {
    /// The guarantees that no run has shown failing. Each of them rests on an assumption that some
    /// fault breaks, so a failure must be seen.
    pub fn unseen_breaks(&self) -> Vec<Invariant> {
        let breakable = Invariant::ALL.into_iter().filter(|which| !which.needs().is_empty());
        breakable.filter(|which| !self.expected.contains_key(which)).collect()
    }

    /// The situations that must happen in some run and happened in none.
    pub fn never_seen(&self) -> Vec<Sometimes> {
        self.seen.missing()
    }

    /// Adds the results of other seeds.
    pub fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.traces = self.traces.wrapping_add(other.traces);
        self.violations.extend(other.violations);
        self.seen = self.seen.and(other.seen);
        for (invariant, seeds) in other.expected {
            *self.expected.entry(invariant).or_default() += seeds;
        }
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.traces = self.traces.wrapping_add(outcome.hash.rotate_left(outcome.seed as u32 % 64));
        self.seen = self.seen.and(outcome.seen);
        for invariant in &outcome.expected {
            *self.expected.entry(*invariant).or_default() += 1;
        }
        if outcome.violation.is_some() {
            self.violations.push(outcome);
        }
    }
}
