//! Computes the report from the recorded data. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::Outcome;
use super::pairs::Pairs;
use super::report::{Alone, Contended, Measured, Parallel, ServerKilled};
use super::side::Raw;
use super::workers::Log;
use crate::judge::{Quantiles, Who, handovers, longest_vacancy, overlaps, tokens};

impl Measured {
    pub(super) fn of(raw: &Raw) -> Self {
        Self {
            alone: Alone::of(&raw.alone),
            parallel: Parallel::of(&raw.parallel),
            contended: Contended::of(&raw.contended, &raw.tasks),
            server_killed: raw.fault.as_ref().map(ServerKilled::of),
        }
    }
}

impl Alone {
    fn of(pairs: &Pairs) -> Self {
        let took = Quantiles::of(pairs.took.clone());
        Self {
            pairs: took.count(),
            p50_us: took.percent(50).map(micros),
            p99_us: took.percent(99).map(micros),
            failed: pairs.failed.count,
        }
    }
}

impl Parallel {
    fn of(pairs: &Pairs) -> Self {
        let count = pairs.took.len();
        let nanos = pairs.measured.as_nanos().max(1);
        let rate = count as u128 * 1_000_000_000 / nanos;
        let pairs_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
        Self { pairs: count, pairs_per_second, failed: pairs.failed.count }
    }
}

impl Contended {
    fn of(log: &Log, workers: &[Who]) -> Self {
        let found = handovers(&log.holds);
        let across = Quantiles::of(found.to_another_locker.clone());
        let to_another_task = found.to_another_task.len();
        let all = Quantiles::of([found.to_another_task, found.to_another_locker].concat());
        let per_task = Shares::of(workers, &found.grants, |who| who.task);
        let per_locker = Shares::of(workers, &found.grants, |who| who.locker);
        let waited = log.holds.iter().map(|hold| hold.granted.since(hold.asked));
        let in_vain = log.waits.iter().map(|wait| wait.ended.since(wait.asked));
        let waits = Quantiles::of(waited.chain(in_vain).collect());
        let held = log.holds.iter().map(|hold| hold.released.since(hold.granted)).collect();
        let tokens = tokens(&log.holds);
        Self {
            lockers: per_locker.count,
            grants: log.holds.len(),
            held_p50_us: Quantiles::of(held).percent(50).map(micros),
            handover_p50_us: all.percent(50).map(micros),
            handover_p99_us: all.percent(99).map(micros),
            to_another_task,
            to_another_locker: across.count(),
            to_another_locker_p50_us: across.percent(50).map(micros),
            to_another_locker_p99_us: across.percent(99).map(micros),
            same_task_again: found.same_task_again,
            grants_per_task_min: per_task.min,
            grants_per_task_max: per_task.max,
            grants_per_locker_min: per_locker.min,
            grants_per_locker_max: per_locker.max,
            wait_p99_ms: waits.percent(99).map(millis),
            wait_max_ms: waits.max().map(millis),
            overlaps: overlaps(&log.holds).len(),
            tokens_unique: tokens.unique(),
            tokens_increasing: tokens.increasing(),
            failed: log.failed.count,
        }
    }
}

impl ServerKilled {
    fn of(outcome: &Outcome) -> Self {
        let log = &outcome.log;
        let (overlaps, tokens) = (overlaps(&log.holds), tokens(&log.holds));
        let longest = overlaps.iter().map(|overlap| overlap.lasted()).max().unwrap_or_default();
        Self {
            grants: log.holds.len(),
            down_ms: millis(outcome.down),
            longest_without_grant_ms: millis(longest_vacancy(&log.holds, &log.waits)),
            failed_attempts: log.failed.count,
            first_failure: log.failed.first.clone(),
            lost: log.lost.count,
            unconfirmed_releases: log.unconfirmed.count,
            overlaps: overlaps.len(),
            overlap_longest_ms: millis(longest),
            tokens_unique: tokens.unique(),
            tokens_increasing: tokens.increasing(),
        }
    }
}

/// How the grants were distributed, including participants without a grant.
struct Shares {
    count: usize,
    min: usize,
    max: usize,
}

impl Shares {
    fn of(workers: &[Who], grants: &BTreeMap<Who, usize>, by: impl Fn(&Who) -> usize) -> Self {
        let mut shares = BTreeMap::<usize, usize>::new();
        for who in workers {
            *shares.entry(by(who)).or_default() += grants.get(who).copied().unwrap_or(0);
        }
        let (min, max) = (shares.values().min(), shares.values().max());
        Self { count: shares.len(), min: *min.unwrap_or(&0), max: *max.unwrap_or(&0) }
    }
}

/// Rounded to the nearest microsecond.
fn micros(time: Duration) -> u64 {
    u64::try_from((time + Duration::from_nanos(500)).as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from((time + Duration::from_micros(500)).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::history::{held, ms, waited};

    #[test]
    fn a_planted_overlap_and_a_wait_are_reported() {
        let holds = vec![held(1, 0, 400), held(2, 100, 250), held(12, 900, 950)];
        let log = Log { holds, waits: vec![waited(50, 1_000)], ..Log::default() };
        let killed = ServerKilled::of(&Outcome { log, down: ms(300) });
        assert_eq!((killed.overlaps, killed.overlap_longest_ms), (1, 150));
        assert_eq!(killed.longest_without_grant_ms, 500, "400 to 900");
        assert_eq!((killed.grants, killed.down_ms), (3, 300));
        assert!(killed.tokens_unique && killed.tokens_increasing);
    }

    #[test]
    fn contention_is_judged_by_who_comes_next() {
        let workers = [1, 2, 12].map(|task| Who { locker: task / 10, task });
        let holds = vec![held(1, 0, 1), held(2, 3, 4), held(12, 8, 9), held(12, 10, 11)];
        let log = Log { holds, ..Log::default() };
        let contended = Contended::of(&log, &workers);
        assert_eq!((contended.to_another_task, contended.to_another_locker), (1, 1));
        assert_eq!(contended.same_task_again, 1);
        assert_eq!(contended.handover_p50_us, Some(2_000));
        assert_eq!(contended.to_another_locker_p50_us, Some(4_000));
        assert_eq!((contended.lockers, contended.overlaps), (2, 0));
        assert_eq!((contended.grants_per_locker_min, contended.grants_per_locker_max), (2, 2));
    }

    #[test]
    fn shares_count_those_who_got_nothing() {
        let who = |locker, task| Who { locker, task };
        let workers = [who(0, 0), who(0, 1), who(1, 2)];
        let grants = BTreeMap::from([(workers[0], 5), (workers[2], 2)]);
        let tasks = Shares::of(&workers, &grants, |who| who.task);
        assert_eq!((tasks.count, tasks.min, tasks.max), (3, 0, 5));
        let lockers = Shares::of(&workers, &grants, |who| who.locker);
        assert_eq!((lockers.count, lockers.min, lockers.max), (2, 2, 5));
    }

    #[test]
    fn times_are_rounded() {
        assert_eq!(micros(Duration::from_nanos(1_500)), 2);
        assert_eq!(millis(Duration::from_micros(1_499)), 1);
        assert_eq!(millis(Duration::MAX / 2), u64::MAX);
    }

    #[test]
    fn a_rate_is_that_of_the_measured_time() {
        let took = vec![Duration::from_millis(1); 300];
        let pairs = Pairs { took, measured: Duration::from_millis(100), ..Pairs::default() };
        assert_eq!(Parallel::of(&pairs).pairs_per_second, 3_000);
        assert_eq!(Parallel::of(&Pairs::default()).pairs_per_second, 0);
    }
}
