//! P7: fifty contenders for one name on five servers. Each has a locker of its own, with its own
//! connections, as if it were a process; only the runtime is shared.

use std::time::Duration;

use anyhow::Result;

use super::contended::section;
use super::reel::{Names, reel};
use super::{Page, progress};
use crate::bed::{Bed, Group, now};
use crate::book::Book;
use crate::plan::{Plan, order};
use crate::subject::{Kind, Work};

/// What the servers do for each acquisition.
pub const REQUESTS: &str = "requests per success";
/// Acquisitions, in percent of those for which there was time.
pub const SHARE: &str = "of the ideal acquisitions";
/// How many.
pub const CONTENDERS: usize = 50;

const SECTION: Work = Work(Some(Duration::from_millis(10)));

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    use Kind::{Baton, Default, Like, LockBaton, Raw, Rslock};
    let group = bed.group(5).await?;
    let kinds = [Raw, Default, Like, Rslock, Baton, LockBaton];
    for round in 0..plan.rounds {
        progress("P7", round, &format!("5 nodes, {CONTENDERS} contenders"));
        for at in order(kinds.len(), round) {
            let kind = kinds[at];
            let page = Page { book, round, id: "P7", kind, nodes: 5, tasks: CONTENDERS };
            if let Err(error) = lap(page, group, plan.lap(3_000)).await {
                progress("P7", round, &format!("{}: {error}", kind.name()));
            }
        }
    }
    Ok(())
}

async fn lap(mut page: Page<'_>, group: &Group, time: Duration) -> Result<()> {
    let plain = page.kind.sends_set(page.nodes);
    let mut contenders = Vec::new();
    for i in 0..CONTENDERS {
        let contender = page.kind.connect(&group.urls()).await?;
        contender.hold(&format!("bench:warm:{i}"), Work(None)).await?;
        contenders.push(contender);
    }
    let name = format!("bench:one:{}", rand::random::<u32>());
    let before = group.tally(plain).await?;
    let begin = now();
    let reels = contenders.iter().map(|c| reel(c, 1, Names::One(&name), SECTION, begin + time));
    let mut pairs = Vec::new();
    for reeled in futures::future::join_all(reels).await {
        pairs.append(&mut reeled?);
    }
    let after = group.tally(plain).await?;
    let took = now().since(begin);
    let ideal = took.as_secs_f64() / section(&pairs).as_secs_f64();
    page.enter(REQUESTS, "", (after.commands - before.commands) as f64 / pairs.len() as f64);
    page.enter(SHARE, "%", pairs.len() as f64 / ideal * 100.0);
    Ok(())
}
