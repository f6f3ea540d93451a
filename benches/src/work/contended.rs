//! P5: one name, many tasks of one process. Counted are handovers to **another** task: whoever
//! gives a lock to itself again is fast and unfair.

use std::time::Duration;

use anyhow::Result;
use quorumlock_core::Instant;
use quorumlock_lab::judge::{Hold, Quantiles, Who, handovers};

use super::reel::{Names, Pair, reel};
use super::{Page, progress};
use crate::bed::{Bed, Group, now};
use crate::book::Book;
use crate::plan::{Plan, order};
use crate::stats::{micros, unfairness};
use crate::subject::{Kind, Subject, Work};

/// From the end of one task's work to the begin of another's.
pub const HANDOVER: &str = "handover to another task p50";
/// What the servers do for each acquisition.
pub const COMMANDS: &str = "commands per acquisition";
/// The most acquisitions of a task over the fewest.
pub const FAIRNESS: &str = "acquisitions max/min";
/// The longest wait over the time that all waiters would work, one after the other.
pub const LONGEST: &str = "longest wait / (waiters x section)";

pub(super) const SECTION: Work = Work(Some(Duration::from_millis(1)));

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    use Kind::{Default, Like, Raw, RedisLock, Rlock, Rslock};
    let one = vec![Raw, Default, Like, Rslock, RedisLock, Rlock];
    for (nodes, kinds) in [(1, one), (5, vec![Raw, Default, Like, Rslock])] {
        let group = bed.group(nodes).await?;
        // Each task has its turn often enough to tell unfairness from a lap that ends in between.
        for (tasks, lap_ms) in [(16, 1_500), (64, 3_000)] {
            for round in 0..plan.rounds {
                progress("P5", round, &format!("{nodes} node(s), {tasks} tasks"));
                for at in order(kinds.len(), round) {
                    let page = Page { book, round, id: "P5", kind: kinds[at], nodes, tasks };
                    if let Err(error) = lap(page, group, plan.lap(lap_ms)).await {
                        progress("P5", round, &format!("{}: {error}", kinds[at].name()));
                    }
                }
            }
        }
    }
    Ok(())
}

async fn lap(mut page: Page<'_>, group: &Group, time: Duration) -> Result<()> {
    let plain = page.kind.sends_set(page.nodes);
    // A fresh one for each lap: nobody profits from the queue of the lap before.
    let subject: Subject = page.kind.connect(&group.urls()).await?;
    subject.hold("bench:warm", Work(None)).await?;
    let name = format!("bench:one:{}", rand::random::<u32>());
    let before = group.tally(plain).await?;
    let begin = now();
    let pairs = reel(&subject, page.tasks, Names::One(&name), SECTION, begin + time).await?;
    let after = group.tally(plain).await?;

    let holds: Vec<_> = pairs.iter().map(|pair| hold(0, pair)).collect();
    let found = handovers(&holds);
    let times = Quantiles::of(found.to_another_task);
    page.enter(HANDOVER, "us", times.percent(50).map_or(f64::NAN, micros));
    page.enter("handover to another task p99", "us", times.percent(99).map_or(f64::NAN, micros));
    let again = found.same_task_again as f64 / pairs.len() as f64;
    page.enter("same task again", "%", again * 100.0);
    page.enter(COMMANDS, "", (after.commands - before.commands) as f64 / pairs.len() as f64);
    // Who got nothing is in no record.
    let mut grants: Vec<_> = found.grants.into_values().collect();
    grants.resize(page.tasks, 0);
    page.enter(FAIRNESS, "", unfairness(&grants).unwrap_or(f64::NAN));
    let wait = pairs.iter().map(|pair| pair.granted.since(pair.asked)).max().unwrap_or_default();
    let turn = section(&pairs).mul_f64(page.tasks as f64);
    page.enter("longest wait", "ms", micros(wait) / 1e3);
    page.enter(LONGEST, "", wait.as_secs_f64() / turn.as_secs_f64());
    Ok(())
}

/// How long the work under the lock really took: timers are coarse, and fire late.
pub(super) fn section(pairs: &[Pair]) -> Duration {
    let total: Duration = pairs.iter().map(|pair| pair.released.since(pair.granted)).sum();
    total / u32::try_from(pairs.len()).unwrap_or(u32::MAX).max(1)
}

pub(super) fn hold(process: usize, pair: &Pair) -> Hold {
    Hold {
        name: "bench".into(),
        who: Who { locker: process, task: pair.task },
        asked: pair.asked,
        granted: pair.granted,
        released: pair.released,
        valid_until: Instant::NEVER + Duration::from_secs(u64::from(u32::MAX)),
        token: 0,
    }
}
