//! How cost grows: with servers, tasks, held locks, waiters.

use anyhow::Result;

use super::contended::{HANDOVER, SECTION};
use super::pairs::sweep;
use super::reel::{Names, reel};
use super::{Page, held, progress};
use crate::bed::{Bed, now};
use crate::book::Book;
use crate::cpu::Core;
use crate::plan::{GROWTH, Plan};
use crate::stats::micros;
use crate::subject::{Kind, Work};

const KINDS: [Kind; 2] = [Kind::Raw, Kind::Default];

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    for nodes in [1, 3, 5, 7] {
        let group = bed.group(nodes).await?;
        sweep(GROWTH, group, &KINDS, &[1], plan.lap(300), plan.rounds, book).await?;
    }
    bed.clients_on(Core::Clients);
    for nodes in [1, 5] {
        let group = bed.group(nodes).await?;
        let tasks = [4, 16, 64, 256, 1_024, 4_096];
        sweep(GROWTH, group, &KINDS, &tasks, plan.lap(300), plan.rounds, book).await?;
    }
    bed.clients_on(Core::Servers);
    waiters(bed, plan, book).await?;
    locks(bed, book).await
}

async fn waiters(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    let group = bed.group(1).await?;
    for tasks in [2, 10, 100, 1_000] {
        for round in 0..plan.rounds {
            progress(GROWTH, round, &format!("{tasks} waiters"));
            let subject = Kind::Default.connect(&group.urls()).await?;
            subject.hold("bench:warm", Work(None)).await?;
            let name = format!("bench:one:{}", rand::random::<u32>());
            let end = now() + plan.lap(1_500);
            let pairs = reel(&subject, tasks, Names::One(&name), SECTION, end).await?;
            let mut sorted: Vec<_> = pairs.iter().collect();
            sorted.sort_by_key(|pair| pair.granted);
            let gaps = sorted.windows(2).map(|two| micros(two[1].granted.since(two[0].released)));
            let mut gaps: Vec<_> = gaps.collect();
            gaps.sort_by(f64::total_cmp);
            let p50 = gaps.get(gaps.len() / 2).copied().unwrap_or(f64::NAN);
            let kind = Kind::Default;
            Page { book, round, id: GROWTH, kind, nodes: 1, tasks }.enter(HANDOVER, "us", p50);
        }
    }
    Ok(())
}

async fn locks(bed: &mut Bed, book: &mut Book) -> Result<()> {
    let group = bed.group(1).await?;
    for tasks in [10, 100, 1_000, 10_000, 100_000] {
        progress(GROWTH, 0, &format!("{tasks} held locks"));
        let found = held::lap(group, tasks).await?;
        let kind = Kind::Default;
        let mut page = Page { book, round: 0, id: GROWTH, kind, nodes: 1, tasks };
        page.enter(held::CALLS, "", found.calls);
        page.enter(held::CPU, "% of a core", found.cpu);
    }
    Ok(())
}
