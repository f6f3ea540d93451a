//! P8: five servers, one of them stopped, then killed. Each round has its own servers, because a
//! killed server must prove its memory again before it votes.

use std::time::Duration;

use anyhow::Result;
use quorumlock_lab::judge::Quantiles;
use quorumlock_testbed::servers::Server;

use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::names::Names;
use crate::plan::order;
use crate::subject::{Kind, Subject, Work};
use crate::testbed::{micros, now};

pub(super) const NODES: usize = 5;
/// The faults of one server, in this order.
pub(super) const ALL: [&str; 2] = [STOPPED, KILLED];
const STOPPED: &str = "one stopped";
const KILLED: &str = "one killed";

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    // redis-lock is left out: it fails without one of its servers.
    use Kind::{Default, Like, Raw, RawMajority, Rslock};
    for round in 0..run.plan.rounds {
        let group = run.testbed.fresh(NODES).await?;
        let victim = &group.servers()?[round % NODES];
        let mut subjects = Vec::new();
        for kind in [Raw, RawMajority, Default, Like, Rslock] {
            let subject = kind.connect(group.urls()).await?;
            subject.hold("bench:warm", Work(None)).await?;
            subjects.push((kind, subject, Quantiles::default()));
        }
        run.say(round, "healthy");
        for at in order(subjects.len(), round) {
            let (_, subject, healthy) = &mut subjects[at];
            *healthy = times(subject, run.plan.lap(500)).await?;
        }
        for fault in ALL {
            run.say(round, fault);
            begin(fault, victim)?;
            for at in order(subjects.len(), round) {
                let (kind, subject, healthy) = &subjects[at];
                let lap = Lap { round, kind: *kind, nodes: NODES, tasks: 1, case: fault };
                // The first 100 ms do not count.
                let found = match times(subject, Duration::from_millis(100)).await {
                    Ok(_) => times(subject, run.plan.lap(500)).await,
                    Err(error) => Err(error),
                };
                match found {
                    Ok(faulty) => compare(run, lap, healthy, &faulty),
                    Err(error) => run.say(round, &format!("{}: {error}", kind.name())),
                }
            }
            end(fault, victim).await?;
        }
    }
    Ok(())
}

pub(super) fn begin(fault: &str, victim: &Server) -> Result<()> {
    match fault {
        STOPPED => victim.pause()?,
        _ => victim.kill()?,
    }
    Ok(())
}

pub(super) async fn end(fault: &str, victim: &Server) -> Result<()> {
    if fault == STOPPED {
        victim.resume()?;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

async fn times(subject: &Subject, time: Duration) -> Result<Quantiles> {
    let names = Names::fresh_for(time);
    let pairs = tasks::run(subject, 1, &names, Work(None), now() + time).await?;
    Ok(Quantiles::of(pairs.iter().map(Pair::took).collect()))
}

fn compare(run: &mut Run<'_>, lap: Lap<'_>, healthy: &Quantiles, faulty: &Quantiles) {
    for percent in [50, 99] {
        let both = faulty.percent(percent).zip(healthy.percent(percent));
        if let Some((faulty, healthy)) = both {
            let ratio = faulty.as_secs_f64() / healthy.as_secs_f64();
            run.enter(lap, &format!("p{percent} / healthy"), "", ratio);
            run.enter(lap, &format!("pair p{percent}"), "us", micros(faulty));
        }
    }
}
