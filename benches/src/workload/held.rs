//! P9: ten thousand locks, held and renewed in a separate process.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use futures::future::try_join_all;
use quorumlock::Locker;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::{Lap, Run};
use crate::cpu;
use crate::plan::{CPU, REQUESTS};
use crate::subject::Kind;
use crate::testbed::Group;

/// The number of held locks.
const LOCKS: usize = 10_000;
/// The number of locks that are requested together.
const AT_ONCE: usize = 500;
/// The only case.
pub(super) const HELD: &str = "held locks";
/// The default lease is renewed every third of it.
const INTERVAL: Duration = Duration::from_secs(10);

/// The arguments of the holding process.
#[derive(Debug, Clone, Args)]
pub struct Holder {
    /// The servers to lock on.
    #[arg(long, value_delimiter = ',')]
    pub urls: Vec<String>,
    /// The number of locks to hold.
    #[arg(long)]
    pub locks: usize,
}

/// The measurements of the holding process.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    /// Requests per server.
    requests: f64,
    /// Bytes per lock.
    memory: f64,
    /// Percent of a processor.
    cpu: f64,
}

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    for nodes in [1, 5] {
        // No subjects are compared, and a round takes 15 seconds, so three rounds are enough.
        for round in 0..run.plan.rounds.min(3) {
            if let Err(error) = measure(run, nodes, LOCKS, round).await {
                run.say(round, &error.to_string());
            }
        }
    }
    Ok(())
}

pub(super) async fn measure(
    run: &mut Run<'_>,
    nodes: usize,
    locks: usize,
    round: usize,
) -> Result<()> {
    run.say(round, &format!("{nodes} node(s), {locks} held locks"));
    let group = run.testbed.group(nodes).await?;
    let output = Command::new(std::env::current_exe()?)
        .args(["holder", "--urls", &group.urls().join(","), "--locks", &locks.to_string()])
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "the holder failed");
    let found: Found = serde_json::from_slice(&output.stdout)?;
    let lap = Lap { round, kind: Kind::Default, nodes, tasks: locks, case: HELD };
    run.enter(lap, CPU, "% of a core", found.cpu);
    run.enter(lap, REQUESTS, "per server and 10 s", found.requests);
    run.enter(lap, "client memory", "bytes per lock", found.memory);
    Ok(())
}

impl Holder {
    /// Runs the holding process. Returns the text that it prints.
    ///
    /// # Errors
    /// If a lock is not granted, or is lost.
    pub async fn run(&self) -> Result<String> {
        let locker = match &self.urls[..] {
            [one] => Locker::single(one)?,
            several => Locker::quorum(several)?,
        };
        let group = Group::of(&self.urls).await?;
        // Memory for the first locks, and for many requests at once, is not a cost per lock, so it
        // is allocated before the measurement.
        try_join_all((0..AT_ONCE).map(|i| take(&locker, format!("bench:warm:{i}")))).await?;
        let before = cpu::resident().unwrap_or(f64::NAN);
        let mut guards = Vec::with_capacity(self.locks);
        for begin in (0..self.locks).step_by(AT_ONCE) {
            let names = begin..self.locks.min(begin + AT_ONCE);
            let taken = names.map(|i| take(&locker, format!("bench:held:{i}")));
            guards.append(&mut try_join_all(taken).await?);
        }
        // Measures one whole interval. It begins after the acquisitions, when the connections have
        // come to rest, and before the first renewal.
        tokio::time::sleep(INTERVAL / 10).await;
        let memory = (cpu::resident().unwrap_or(f64::NAN) - before) / self.locks as f64;
        let (requests, used) = (group.usage().await?.requests, cpu::used_by_us());
        tokio::time::sleep(INTERVAL).await;
        let requests = (group.usage().await?.requests - requests) / self.urls.len() as f64;
        let used =
            used.zip(cpu::used_by_us()).map_or(f64::NAN, |(from, to)| (to - from).as_secs_f64());
        for guard in &guards {
            guard.check()?;
        }
        drop(guards);
        locker.close().await;
        let cpu = used / INTERVAL.as_secs_f64() * 100.0;
        Ok(serde_json::to_string(&Found { requests, memory, cpu })?)
    }
}

async fn take(locker: &Locker, name: String) -> Result<quorumlock::Guard> {
    Ok(locker.lock(name).await?)
}
