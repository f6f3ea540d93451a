//! P8: five servers, one of them stopped, then killed. Servers of its own in every round: one that
//! was killed has to prove its memory again.

use std::time::Duration;

use anyhow::Result;
use quorumlock_lab::judge::Quantiles;

use super::reel::{Names, Pair, reel};
use super::{Page, progress};
use crate::bed::{Bed, now};
use crate::book::Book;
use crate::plan::{Plan, order};
use crate::stats::micros;
use crate::subject::{Kind, Subject, Work};

/// How long a pair takes with a fault, over how long it takes without.
#[must_use]
pub fn metric(percent: usize, fault: &str) -> String {
    format!("p{percent} with one {fault} / healthy")
}

const NODES: usize = 5;
const KINDS: [Kind; 5] = [Kind::Raw, Kind::Default, Kind::Like, Kind::Rslock, Kind::RedisLock];

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    for round in 0..plan.rounds {
        let group = bed.fresh(NODES).await?;
        let victim = &group.servers()?[round % NODES];
        let mut subjects = Vec::new();
        for kind in KINDS {
            let subject = kind.connect(&group.urls()).await?;
            subject.hold("bench:0", Work(None)).await?;
            subjects.push((kind, subject, Quantiles::default()));
        }
        progress("P8", round, "healthy");
        for at in order(KINDS.len(), round) {
            let (_, subject, healthy) = &mut subjects[at];
            *healthy = times(subject, plan.lap(500)).await?;
        }
        for fault in ["stopped", "killed"] {
            progress("P8", round, fault);
            match fault {
                "stopped" => victim.pause()?,
                _ => victim.kill()?,
            }
            for at in order(KINDS.len(), round) {
                let (kind, subject, healthy) = &subjects[at];
                // What the first 100 ms cost is another question.
                let found = match times(subject, Duration::from_millis(100)).await {
                    Ok(_) => times(subject, plan.lap(500)).await,
                    Err(error) => Err(error),
                };
                let mut page = Page { book, round, id: "P8", kind: *kind, nodes: NODES, tasks: 1 };
                match found {
                    Ok(faulty) => compare(&mut page, healthy, &faulty, fault),
                    Err(error) => progress("P8", round, &format!("{}: {error}", kind.name())),
                }
            }
            if fault == "stopped" {
                victim.resume()?;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    }
    Ok(())
}

async fn times(subject: &Subject, time: Duration) -> Result<Quantiles> {
    let pairs = reel(subject, 1, Names::Apart, Work(None), now() + time).await?;
    Ok(Quantiles::of(pairs.iter().map(Pair::took).collect()))
}

fn compare(page: &mut Page<'_>, healthy: &Quantiles, faulty: &Quantiles, fault: &str) {
    for percent in [50, 99] {
        let both = faulty.percent(percent).zip(healthy.percent(percent));
        if let Some((faulty, healthy)) = both {
            let ratio = faulty.as_secs_f64() / healthy.as_secs_f64();
            page.enter(&metric(percent, fault), "x", ratio);
            page.enter(&format!("p{percent} with one {fault}"), "us", micros(faulty));
        }
    }
}
