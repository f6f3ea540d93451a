//! P11: the memory of the servers after many names were locked once. P11 has its own servers, so
//! that they hold nothing else.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::tasks;
use super::{Lap, Run};
use crate::cpu::Core;
use crate::names::Names;
use crate::plan::{KEYS, MEMORY};
use crate::subject::{Kind, Work};
use crate::testbed::{Group, Memory, now};

const TASKS: usize = 64;
/// Measured as soon as all clients have disconnected.
const AT_ONCE: &str = "at once";
/// Measured after the longest default lease, one minute.
const LEASE_LATER: &str = "after the longest lease";
const LEASE: Duration = Duration::from_secs(60);
const RESTED: &str = "after the rest";

/// Servers whose names have been locked, with their memory before that.
struct Filled {
    /// The index of the run.
    at: usize,
    group: Group,
    empty: Memory,
    kind: Kind,
}

/// Runs P11 for all runs. All servers rest at the same time.
pub(super) async fn run(runs: &mut [Run<'_>]) -> Result<()> {
    let mut filled = Vec::new();
    for (at, run) in runs.iter_mut().enumerate() {
        run.testbed.clients_on(Core::Clients);
        for (nodes, kind) in [(1, Kind::Raw), (1, Kind::Default), (5, Kind::Default)] {
            run.say(0, &format!("{nodes} node(s), {}", kind.name()));
            let group = run.testbed.fresh(nodes).await?;
            let empty = group.memory().await?;
            match fill(&group, kind, run.plan.names).await {
                Ok(()) => filled.push(Filled { at, group, empty, kind }),
                Err(error) => run.say(0, &format!("{}: {error}", kind.name())),
            }
        }
    }
    let rest = runs.first().map_or(Duration::ZERO, |run| run.plan.rest);
    let begin = now();
    for (case, after) in [(AT_ONCE, Duration::ZERO), (LEASE_LATER, LEASE.min(rest)), (RESTED, rest)]
    {
        tokio::time::sleep((begin + after).since(now())).await;
        for Filled { at, group, empty, kind } in &filled {
            let (run, nodes) = (&mut runs[*at], group.urls().len());
            let lap = Lap { round: 0, kind: *kind, nodes, tasks: TASKS, case };
            let found = group.memory().await?;
            run.enter(lap, MEMORY, "MB", (found.bytes - empty.bytes) / 1e6);
            run.enter(lap, KEYS, "", found.keys - empty.keys);
        }
    }
    Ok(())
}

/// Locks and unlocks each name once, and disconnects.
async fn fill(group: &Group, kind: Kind, count: usize) -> Result<()> {
    const LONG: Duration = Duration::from_secs(3_600);
    const GONE: Duration = Duration::from_secs(10);
    let subject = kind.connect(group.urls()).await?;
    let names = Names::fresh(count);
    let pairs = tasks::run(&subject, TASKS, &names, Work(None), now() + LONG).await?;
    ensure!(pairs.len() == count, "{} of {count} names", pairs.len());
    drop(subject);
    let begun = now();
    while group.clients().await? > 0.0 {
        ensure!(now().since(begun) < GONE, "{} stays connected", kind.name());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
