//! Computes the report of a comparison from the histories of its runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::Plan;
use super::plan::MODES;
use super::report::{Alone, Contended, Environment, Measured, Parallel, Report, ServerKilled};
use crate::history::{BadHistory, Event, Reader};
use crate::judge::{
    HistorySummary, Pairs, Quantiles, Summarizer, Who, handovers, longest_vacancy, overlaps,
    overtakings, overtakings_per_1000, tokens,
};
use crate::record::{Lab, Run};
use crate::scenario::c1_locks::{self, ALONE, LOCKERS, PARALLEL};

/// The report of a comparison whose runs are in `dir`.
///
/// # Errors
/// If a history cannot be read.
pub fn measure(plan: &Plan, lab: &Lab, dir: &Path) -> Result<Report, BadHistory> {
    let [single, quorum] = MODES.map(|mode| {
        let runs = lab.runs.iter().filter(move |run| run.mode == mode.to_string());
        Histories::read(runs, dir).map(|read| read.measured(plan.tasks))
    });
    let environment = Environment {
        version: lab.environment.quorumlock.clone(),
        build: lab.environment.build.clone(),
        server: Some(lab.environment.server.clone()).filter(|server| !server.is_empty()),
        cpus: Some(lab.environment.cpus).filter(|cpus| *cpus > 0),
        nodes: plan.nodes,
        tasks: plan.tasks,
        seconds: plan.measuring.as_secs_f64(),
        seed: plan.seed,
    };
    Ok(Report { environment, single: single?, quorum: quorum? })
}

/// What the histories of one mode say.
#[derive(Default)]
struct Histories {
    alone: Pairs,
    parallel: Pairs,
    contended: Summarizer,
    killed: Option<HistorySummary>,
}

impl Histories {
    fn read<'a>(runs: impl Iterator<Item = &'a Run>, dir: &Path) -> Result<Self, BadHistory> {
        let mut all = Self::default();
        for run in runs {
            let events = Reader::open(dir.join("runs").join(&run.run).join("history.jsonl"))?;
            if run.scenario == c1_locks::SCENARIO.id {
                all.add_locks(&run.run, events)?;
            } else {
                let mut killed = Summarizer::default();
                for event in events {
                    killed.observe(&event?);
                }
                all.killed = Some(killed.close());
            }
        }
        Ok(all)
    }

    fn add_locks(&mut self, run: &str, events: Reader) -> Result<(), BadHistory> {
        let (mut alone, mut parallel) = (Pairs::default(), Pairs::default());
        for event in events {
            let event = event?;
            match event.client.as_str() {
                ALONE => alone.observe(&event),
                PARALLEL => parallel.observe(&event),
                // Every run has servers of its own, so its lock is another one.
                _ => self.contended.observe(&Event {
                    name: event.name.map(|name| format!("{run}/{name}")),
                    ..event
                }),
            }
        }
        self.alone.add(alone);
        self.parallel.add(parallel);
        Ok(())
    }

    fn measured(self, tasks: usize) -> Measured {
        Measured {
            alone: Alone::of(self.alone),
            parallel: Parallel::of(&self.parallel),
            contended: Contended::of(&self.contended.close(), tasks),
            server_killed: self.killed.as_ref().map(ServerKilled::of),
        }
    }
}

impl Alone {
    fn of(pairs: Pairs) -> Self {
        let took = Quantiles::of(pairs.took);
        Self {
            pairs: took.count(),
            p50_us: took.percent(50).map(micros),
            p99_us: took.percent(99).map(micros),
            failed: pairs.failed,
        }
    }
}

impl Parallel {
    fn of(pairs: &Pairs) -> Self {
        let count = pairs.took.len();
        let nanos = pairs.measured.as_nanos().max(1);
        let rate = count as u128 * 1_000_000_000 / nanos;
        let pairs_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
        Self { pairs: count, pairs_per_second, failed: pairs.failed }
    }
}

impl Contended {
    fn of(seen: &HistorySummary, tasks: usize) -> Self {
        let found = handovers(&seen.holds);
        let across = Quantiles::of(found.to_another_locker.clone());
        let to_another_task = found.to_another_task.len();
        let all = Quantiles::of([found.to_another_task, found.to_another_locker].concat());
        let lockers = LOCKERS.len().min(tasks);
        let per_task = least_and_most(tasks, &found.grants, |who| *who);
        let per_locker = least_and_most(lockers, &found.grants, |who| who.locker);
        let waited = seen.holds.iter().map(|hold| hold.granted.since(hold.asked));
        let in_vain = seen.waits.iter().map(|wait| wait.ended.since(wait.asked));
        let waits = Quantiles::of(waited.chain(in_vain).collect());
        let held = seen.holds.iter().map(|hold| hold.released.since(hold.granted)).collect();
        let tokens = tokens(&seen.holds);
        let (grants, overtakings) = (seen.holds.len(), overtakings(&seen.holds, &seen.waits));
        Self {
            lockers,
            grants,
            held_p50_us: Quantiles::of(held).percent(50).map(micros),
            handover_p50_us: all.percent(50).map(micros),
            handover_p99_us: all.percent(99).map(micros),
            to_another_task,
            to_another_locker: across.count(),
            to_another_locker_p50_us: across.percent(50).map(micros),
            to_another_locker_p99_us: across.percent(99).map(micros),
            same_task_again: found.same_task_again,
            grants_per_task_min: per_task.0,
            grants_per_task_max: per_task.1,
            grants_per_locker_min: per_locker.0,
            grants_per_locker_max: per_locker.1,
            wait_p99_ms: waits.percent(99).map(millis),
            wait_max_ms: waits.max().map(millis),
            overtakings,
            overtakings_per_1000: overtakings_per_1000(overtakings as u64, grants as u64),
            overlaps: overlaps(&seen.holds).len(),
            tokens_unique: tokens.unique(),
            tokens_increasing: tokens.increasing(),
            failed: number(seen.failed),
        }
    }
}

impl ServerKilled {
    fn of(seen: &HistorySummary) -> Self {
        let (overlaps, tokens) = (overlaps(&seen.holds), tokens(&seen.holds));
        let longest = overlaps.iter().map(|overlap| overlap.lasted()).max().unwrap_or_default();
        let down = seen.faults.first().zip(seen.faults.last());
        Self {
            grants: seen.holds.len(),
            down_ms: down.map_or(0, |(killed, back)| millis(back.since(*killed))),
            longest_without_grant_ms: millis(longest_vacancy(&seen.holds, &seen.waits)),
            failed_attempts: number(seen.failed),
            first_failure: seen.first_failure.clone(),
            lost: seen.losses.len() + number(seen.lost_at_release),
            unconfirmed_releases: number(seen.unconfirmed),
            overlaps: overlaps.len(),
            overlap_longest_ms: millis(longest),
            tokens_unique: tokens.unique(),
            tokens_increasing: tokens.increasing(),
        }
    }
}

/// The grants of the one of `count` participants that got the fewest, and of the one that got the
/// most.
fn least_and_most<K: Ord>(
    count: usize,
    grants: &BTreeMap<Who, usize>,
    by: impl Fn(&Who) -> K,
) -> (usize, usize) {
    let mut shares = BTreeMap::<K, usize>::new();
    for (who, grants) in grants {
        *shares.entry(by(who)).or_default() += grants;
    }
    // Only participants with a grant are in it.
    let least = shares.values().min().filter(|_| shares.len() >= count);
    (*least.unwrap_or(&0), *shares.values().max().unwrap_or(&0))
}

fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
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
    use crate::judge::history::{at, held, ms, waited};

    #[test]
    fn a_planted_overlap_and_a_wait_are_reported() {
        let killed = ServerKilled::of(&HistorySummary {
            holds: vec![held(1, 0, 400), held(2, 100, 250), held(12, 900, 950)],
            waits: vec![waited(50, 1_000)],
            faults: vec![at(200), at(500), at(510)],
            losses: vec![(at(0), at(400))],
            lost_at_release: 2,
            ..HistorySummary::default()
        });
        assert_eq!((killed.overlaps, killed.overlap_longest_ms), (1, 150));
        assert_eq!(killed.longest_without_grant_ms, 500, "400 to 900");
        assert_eq!((killed.grants, killed.down_ms, killed.lost), (3, 310, 3));
        assert!(killed.tokens_unique && killed.tokens_increasing);
    }

    #[test]
    fn contention_is_judged_by_who_comes_next() {
        let holds = vec![held(1, 0, 1), held(2, 3, 4), held(12, 8, 9), held(12, 10, 11)];
        let contended = Contended::of(&HistorySummary { holds, ..Default::default() }, 2);
        assert_eq!((contended.to_another_task, contended.to_another_locker), (1, 1));
        assert_eq!(contended.same_task_again, 1);
        assert_eq!(contended.handover_p50_us, Some(2_000));
        assert_eq!(contended.to_another_locker_p50_us, Some(4_000));
        assert_eq!((contended.lockers, contended.overlaps), (2, 0));
        assert_eq!(contended.overtakings_per_1000, Some(0.0));
        assert_eq!((contended.grants_per_locker_min, contended.grants_per_locker_max), (2, 2));
    }

    #[test]
    fn who_got_nothing_counts_as_well() {
        let who = |locker, task| Who { locker, task };
        let grants = BTreeMap::from([(who(0, 0), 5), (who(1, 0), 2)]);
        assert_eq!(least_and_most(3, &grants, |who| *who), (0, 5));
        assert_eq!(least_and_most(2, &grants, |who| who.locker), (2, 5));
        assert_eq!(least_and_most(2, &BTreeMap::new(), |who| *who), (0, 0));
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
        let mut pairs = Pairs::default();
        (pairs.took, pairs.measured) = (took, ms(100));
        assert_eq!(Parallel::of(&pairs).pairs_per_second, 3_000);
        assert_eq!(Parallel::of(&Pairs::default()).pairs_per_second, 0);
    }
}
