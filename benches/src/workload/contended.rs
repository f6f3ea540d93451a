//! P5: one name, many tasks of one process. Only handovers to **another** task count: a subject
//! that grants the lock to the same task again is fast and unfair.

use std::time::Duration;

use anyhow::Result;
use quorumlock_lab::judge::{Hold, Quantiles, Who, handovers};
use quorumlock_protocol::Instant;

use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::names::Names;
use crate::plan::{EVENNESS, HANDOVER, HANDOVERS, LONGEST, REQUESTS, order};
use crate::subject::{Kind, Work};
use crate::testbed::{Group, micros, now};

/// The only case.
pub(super) const ONE: &str = "one name";
/// The work under the lock.
pub(super) const SECTION: Work = Work(Some(Duration::from_millis(1)));

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    use Kind::{Default, Like, Raw, RedisLock, Rslock};
    let one = vec![Raw, Default, Like, Rslock, RedisLock];
    for (nodes, kinds) in [(1, one), (5, vec![Raw, Default, Like, Rslock])] {
        let group = run.testbed.group(nodes).await?;
        laps(run, &group, &kinds).await;
        if let Some(etcd) = run.etcd(nodes) {
            laps(run, &etcd, &[Kind::Etcd]).await;
        }
    }
    Ok(())
}

async fn laps(run: &mut Run<'_>, group: &Group, kinds: &[Kind]) {
    let nodes = group.urls().len();
    // Each task holds the lock often enough that the end of the lap does not look like
    // unfairness.
    for (tasks, lap_ms) in [(16, 1_500), (64, 3_000)] {
        for round in 0..run.plan.rounds {
            run.say(round, &format!("{nodes} node(s), {tasks} tasks"));
            for at in order(kinds.len(), round) {
                let lap = Lap { round, kind: kinds[at], nodes, tasks, case: ONE };
                if let Err(error) = measure(run, lap, group, run.plan.lap(lap_ms)).await {
                    run.say(round, &format!("{}: {error}", lap.kind.name()));
                }
            }
        }
    }
}

async fn measure(run: &mut Run<'_>, lap: Lap<'_>, group: &Group, time: Duration) -> Result<()> {
    // Each lap has a fresh subject, so that no task profits from the queue of the lap before.
    let subject = lap.kind.connect(group.urls()).await?;
    subject.hold("bench:warm", Work(None)).await?;
    let (before, begin) = (group.usage().await?, now());
    let pairs = tasks::run(&subject, lap.tasks, &Names::one(), SECTION, begin + time).await?;
    let (after, seconds) = (group.usage().await?, now().since(begin).as_secs_f64());

    let holds: Vec<_> = pairs.iter().map(|pair| hold(0, pair)).collect();
    let found = handovers(&holds);
    let count = pairs.len() as f64;
    let times = Quantiles::of(found.to_another_task);
    run.enter(lap, HANDOVERS, "1/s", times.count() as f64 / seconds);
    run.enter(lap, HANDOVER, "us", times.percent(50).map_or(f64::NAN, micros));
    run.enter(lap, "handover p99", "us", times.percent(99).map_or(f64::NAN, micros));
    run.enter(lap, REQUESTS, "per hold", (after.requests - before.requests) / count);
    run.enter(lap, "server CPU", "us per hold", (after.cpu - before.cpu) / count);
    let mut grants: Vec<_> = found.grants.into_values().collect();
    // Tasks without a grant are in no record: count them as 0.
    grants.resize(lap.tasks, 0);
    run.enter(lap, EVENNESS, "", evenness(&grants));
    let wait = pairs.iter().map(|pair| pair.granted.since(pair.asked)).max().unwrap_or_default();
    let turn = section(&pairs).mul_f64(lap.tasks as f64);
    run.enter(lap, LONGEST, "turns of all", wait.as_secs_f64() / turn.as_secs_f64());
    Ok(())
}

/// The smallest count divided by the largest: 1 if all are equal, 0 if some task got nothing.
pub(super) fn evenness(counts: &[usize]) -> f64 {
    let least = counts.iter().min().copied().unwrap_or_default();
    let most = counts.iter().max().copied().unwrap_or_default();
    least as f64 / most as f64
}

/// The mean real time of the work under the lock. Timers are coarse and fire late, so it is longer
/// than asked for.
pub(super) fn section(pairs: &[Pair]) -> Duration {
    let total: Duration = pairs.iter().map(|pair| pair.released.since(pair.granted)).sum();
    total / u32::try_from(pairs.len()).unwrap_or(u32::MAX).max(1)
}

pub(super) fn hold(process: usize, pair: &Pair) -> Hold {
    Hold {
        name: "bench".into(),
        permits: 1,
        reads: false,
        who: Who { locker: process, task: pair.task },
        asked: pair.asked,
        granted: pair.granted,
        released: pair.released,
        valid_until: Instant::NEVER + Duration::from_secs(u64::from(u32::MAX)),
        token: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_is_one_if_all_are_equal_and_zero_if_somebody_got_nothing() {
        let found = [&[8, 8][..], &[10, 5, 8], &[10, 0]].map(evenness);
        assert_eq!(found, [1.0, 0.5, 0.0]);
        assert!(evenness(&[0, 0]).is_nan() && evenness(&[]).is_nan());
    }
}
