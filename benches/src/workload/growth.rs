//! Growth curves: the cost by number of servers, tasks, waiters and held locks.

use anyhow::Result;
use quorumlock_lab::judge::{Quantiles, handovers};

use super::contended::{ONE, SECTION, hold};
use super::pairs::{FRESH, Sweep, sweep};
use super::tasks;
use super::{Lap, Run, held};
use crate::cpu::Core;
use crate::names::Names;
use crate::plan::HANDOVER;
use crate::subject::{Kind, Work};
use crate::testbed::{micros, now};

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    let (kinds, clients) = (&[Kind::Raw, Kind::Default], &[]);
    let (cases, time) = (&[FRESH], run.plan.lap(300));
    for nodes in [1, 3, 5, 7] {
        sweep(run, &Sweep { nodes, kinds, clients, cases, tasks: &[1], time }).await?;
    }
    run.testbed.clients_on(Core::Clients);
    for nodes in [1, 5] {
        let tasks = &[4, 16, 64, 256, 1_024, 4_096];
        sweep(run, &Sweep { nodes, kinds, clients, cases, tasks, time }).await?;
    }
    run.testbed.clients_on(Core::Servers);
    for tasks in [2, 10, 100, 1_000] {
        for round in 0..run.plan.rounds {
            if let Err(error) = waiters(run, tasks, round).await {
                run.say(round, &error.to_string());
            }
        }
    }
    for locks in [100, 1_000, 10_000, 100_000] {
        if let Err(error) = held::measure(run, 1, locks, 0).await {
            run.say(0, &error.to_string());
        }
    }
    Ok(())
}

async fn waiters(run: &mut Run<'_>, tasks: usize, round: usize) -> Result<()> {
    run.say(round, &format!("{tasks} waiters"));
    let group = run.testbed.group(1).await?;
    let subject = Kind::Default.connect(group.urls()).await?;
    subject.hold("bench:warm", Work(None)).await?;
    let end = now() + run.plan.lap(1_500);
    let pairs = tasks::run(&subject, tasks, &Names::one(), SECTION, end).await?;
    let holds: Vec<_> = pairs.iter().map(|pair| hold(0, pair)).collect();
    let p50 = Quantiles::of(handovers(&holds).to_another_task).percent(50);
    let lap = Lap { round, kind: Kind::Default, nodes: 1, tasks, case: ONE };
    run.enter(lap, HANDOVER, "us", p50.map_or(f64::NAN, micros));
    Ok(())
}
