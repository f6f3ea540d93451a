//! P1 to P4: locks that nobody else wants.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use quorumlock_core::Instant;
use quorumlock_lab::judge::Quantiles;

use super::reel::{Names, Pair, own_name, reel};
use super::{Page, progress};
use crate::bed::{Bed, Group, now};
use crate::book::Book;
use crate::cpu;
use crate::plan::{Plan, order};
use crate::stats::micros;
use crate::subject::{Kind, Subject, Work};

/// The time that a pair takes.
pub const P50: &str = "pair p50";
/// Pairs per second.
pub const RATE: &str = "pairs per second";

/// One task.
///
/// # Errors
/// See [`run`](super::run).
pub async fn alone(
    id: &'static str,
    nodes: usize,
    bed: &mut Bed,
    plan: &Plan,
    book: &mut Book,
) -> Result<()> {
    let group = bed.group(nodes).await?;
    let (time, rounds) = plan.brief();
    sweep(id, group, &kinds(nodes), &[1], time, rounds, book).await
}

/// 64 and 1,024 tasks.
///
/// # Errors
/// See [`run`](super::run).
pub async fn many(
    id: &'static str,
    nodes: usize,
    bed: &mut Bed,
    plan: &Plan,
    book: &mut Book,
) -> Result<()> {
    let group = bed.group(nodes).await?;
    let mut kinds = kinds(nodes);
    if nodes > 1 {
        kinds.extend([Kind::Bulk, Kind::LockBulk]);
    }
    sweep(id, group, &kinds, &[64, 1_024], plan.lap(600), plan.rounds, book).await
}

/// Measures some subjects with some numbers of tasks, interleaved.
pub(super) async fn sweep(
    id: &'static str,
    group: &Group,
    kinds: &[Kind],
    tasks: &[usize],
    time: Duration,
    rounds: usize,
    book: &mut Book,
) -> Result<()> {
    let (urls, nodes) = (group.urls(), group.urls().len());
    for &tasks in tasks {
        let mut subjects = Vec::new();
        for kind in kinds {
            match warm(*kind, &urls, tasks, time).await {
                Ok(subject) => subjects.push((*kind, subject)),
                Err(error) => progress(id, 0, &format!("{} has no lap: {error}", kind.name())),
            }
        }
        for round in 0..rounds {
            progress(id, round, &format!("{nodes} node(s), {tasks} task(s)"));
            for at in order(subjects.len(), round) {
                let (kind, subject) = &subjects[at];
                let mut page = Page { book, round, id, kind: *kind, nodes, tasks };
                if let Err(error) = lap(&mut page, group, subject, time).await {
                    progress(id, round, &format!("{}: {error}", kind.name()));
                }
            }
        }
    }
    Ok(())
}

/// Connections, scripts, memory. First acquisitions cost servers more than later ones, and would take too long
/// for the last ones if all came at once.
async fn warm(kind: Kind, urls: &[String], tasks: usize, time: Duration) -> Result<Subject> {
    const CROWD: usize = 256;
    let subject = kind.connect(urls).await?;
    let names: Vec<_> = (0..tasks).map(own_name).collect();
    for crowd in names.chunks(CROWD) {
        try_join_all(crowd.iter().map(|name| subject.hold(name, Work(None)))).await?;
    }
    reel(&subject, tasks, Names::Apart, Work(None), now() + time / 10).await?;
    Ok(subject)
}

async fn lap(page: &mut Page<'_>, group: &Group, subject: &Subject, time: Duration) -> Result<()> {
    let plain = page.kind.sends_set(page.nodes);
    let before = group.tally(plain).await?;
    let (cpu, begin) = (cpu::used_by_us(), now());
    let (count, times) = pairs(subject, page.tasks, begin + time).await?;
    let took = now().since(begin).as_secs_f64();
    let cpu = cpu.zip(cpu::used_by_us()).map_or(f64::NAN, |(from, to)| micros(to - from));
    let after = group.tally(plain).await?;
    let times = Quantiles::of(times);
    let percent = |percent| times.percent(percent).map_or(f64::NAN, micros);
    page.enter(P50, "us", percent(50));
    page.enter("pair p99", "us", percent(99));
    page.enter(RATE, "1/s", count / took);
    // What is sent in bulk is no lock's.
    if !matches!(subject, Subject::Bulk(_)) {
        let commands = (after.commands - before.commands) as f64;
        page.enter("commands per pair", "", commands / count);
    }
    page.enter("client CPU per pair", "us", cpu / count);
    page.enter("server CPU per pair", "us", (after.cpu - before.cpu) / count);
    Ok(())
}

/// How many there were until `end`, and for how long each took, if that can be told.
async fn pairs(subject: &Subject, tasks: usize, end: Instant) -> Result<(f64, Vec<Duration>)> {
    if let Subject::Bulk(bulk) = subject {
        let names: Vec<_> = (0..tasks).map(own_name).collect();
        return Ok((bulk.pairs(&names, end).await? as f64, Vec::new()));
    }
    let pairs = reel(subject, tasks, Names::Apart, Work(None), end).await?;
    Ok((pairs.len() as f64, pairs.iter().map(Pair::took).collect()))
}

fn kinds(nodes: usize) -> Vec<Kind> {
    use Kind::{Default, Like, Pings, Raw, RawTokens, RedisLock, Rlock, Rslock};
    match nodes {
        1 => vec![Raw, Default, Like, RawTokens, Rslock, RedisLock, Rlock, Pings],
        _ => vec![Raw, Default, Like, Rslock, RedisLock, Pings],
    }
}
