//! P7: fifty contenders for one name on five servers. Each has a locker of its own, with its own
//! connections, as if it were a process; only the runtime is shared.
//!
//! The ideal is that of the simulation from which the target comes: whoever has worked is followed by the next one
//! after a single round trip to all servers.

use std::time::Duration;

use anyhow::Result;
use quorumlock_core::Instant;

use super::contended::section;
use super::reel::{Names, Pair, reel};
use super::{Page, progress};
use crate::bed::{Bed, Group, now};
use crate::book::Book;
use crate::plan::{Plan, order};
use crate::subject::{Kind, Work};

/// What the servers do for each acquisition.
pub const REQUESTS: &str = "requests per success";
/// Acquisitions, in percent of those for which there was time, with a round trip between two of them.
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
            if let Err(error) = lap(page, group, plan).await {
                progress("P7", round, &format!("{}: {error}", kind.name()));
            }
        }
    }
    Ok(())
}

/// Until then nothing counts: all come at once, and are only about to listen.
const BEGINNING: u64 = 500;

async fn lap(mut page: Page<'_>, group: &Group, plan: &Plan) -> Result<()> {
    let plain = page.kind.sends_set(page.nodes);
    let round_trip = group.round_trip().await?;
    let mut contenders = Vec::new();
    for i in 0..CONTENDERS {
        let contender = page.kind.connect(&group.urls()).await?;
        contender.hold(&format!("bench:warm:{i}"), Work(None)).await?;
        contenders.push(contender);
    }
    let name = format!("bench:one:{}", rand::random::<u32>());
    let begin = now() + plan.lap(BEGINNING);
    let end = begin + plan.lap(3_000);
    let reels = contenders.iter().map(|c| reel(c, 1, Names::One(&name), SECTION, end));
    let commands = async |at: Instant| {
        tokio::time::sleep(at.since(now())).await;
        Ok::<_, anyhow::Error>((now(), group.tally(plain).await?.commands))
    };
    let (reeled, before, after) =
        tokio::join!(futures::future::join_all(reels), commands(begin), commands(end));
    let ((begin, before), (end, after)) = (before?, after?);
    let mut pairs: Vec<Pair> = Vec::new();
    for reeled in reeled {
        pairs.extend(reeled?.into_iter().filter(|pair| (begin..end).contains(&pair.granted)));
    }
    let (held, successes) = (section(&pairs).as_secs_f64(), pairs.len() as f64);
    let turns = |turn: f64| end.since(begin).as_secs_f64() / turn;
    page.enter(REQUESTS, "", (after - before) as f64 / successes);
    page.enter(SHARE, "%", successes / turns(held + round_trip / 1e6) * 100.0);
    page.enter("of the time held", "%", successes / turns(held) * 100.0);
    Ok(())
}
