//! P6: one name, several processes. The program starts itself as the worker.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum as _};
use quorumlock_lab::judge::{Quantiles, handovers};
use quorumlock_protocol::Instant;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::contended::{SECTION, evenness, hold};
use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::cpu::Core;
use crate::names::Names;
use crate::plan::{EVENNESS, HANDOVER, HANDOVERS, REQUESTS, order};
use crate::subject::{Kind, Work};
use crate::testbed::{Group, micros, now};

/// The arguments of a worker.
#[derive(Debug, Clone, Args)]
pub struct Worker {
    /// The subject that locks.
    #[arg(long)]
    pub kind: Kind,
    /// The servers to lock on.
    #[arg(long, value_delimiter = ',')]
    pub urls: Vec<String>,
    /// The name to lock.
    #[arg(long)]
    pub name: String,
    /// The number of tasks.
    #[arg(long)]
    pub tasks: usize,
    /// When to begin, in nanoseconds of the clock that processes share.
    #[arg(long)]
    pub begin: u64,
    /// How long to run, in milliseconds.
    #[arg(long)]
    pub millis: u64,
}

/// A pair as workers print it, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Line(usize, u64, u64, u64, u64);

/// The contenders of a case.
#[derive(Debug, Clone, Copy)]
struct Scene {
    case: &'static str,
    processes: usize,
    /// The tasks in each process.
    tasks: usize,
    /// The length of a lap in milliseconds. It is long enough for each process to hold the lock
    /// often, because a lap ends in the middle of a hold.
    lap_ms: u64,
}

const NEAR: [Scene; 2] = [
    Scene { case: "4 processes of 4 tasks", processes: 4, tasks: 4, lap_ms: 2_500 },
    Scene { case: "16 processes", processes: 16, tasks: 1, lap_ms: 2_000 },
];
/// With distant servers the round trips dominate.
const FAR: Scene = Scene { case: "16 processes, far", processes: 16, tasks: 1, lap_ms: 2_500 };
/// The delay in each direction to distant servers.
const DELAY: Duration = Duration::from_millis(2);

/// The work of one token in a process with four tasks. It lasts as long as quorumlock passes a lock
/// among four tasks of one process: 17 holds of about 2 ms.
const SERIES: Work = Work(Some(Duration::from_millis(34)));

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    use Kind::{Default, Like, Raw, Rslock, TokenRing};
    let kinds = [Raw, Default, Like, Rslock, TokenRing];
    for nodes in [1, 5] {
        let group = run.testbed.group(nodes).await?;
        for scene in NEAR {
            laps(run, &group, &kinds, scene).await;
        }
        if let Some(etcd) = run.etcd(nodes) {
            for scene in NEAR {
                laps(run, &etcd, &[Kind::Etcd], scene).await;
            }
        }
        // The ways load the processor on which no server runs.
        run.testbed.clients_on(Core::Clients);
        let ways = group.far(DELAY)?;
        run.testbed.clients_on(Core::Servers);
        let urls = ways.iter().map(|(_, url)| url.clone()).collect::<Vec<_>>();
        laps(run, &Group::of(&urls).await?, &kinds, FAR).await;
    }
    Ok(())
}

async fn laps(run: &mut Run<'_>, group: &Group, kinds: &[Kind], scene: Scene) {
    let (nodes, tasks) = (group.urls().len(), scene.processes * scene.tasks);
    for round in 0..run.plan.rounds {
        run.say(round, &format!("{nodes} node(s), {}", scene.case));
        for at in order(kinds.len(), round) {
            let lap = Lap { round, kind: kinds[at], nodes, tasks, case: scene.case };
            if let Err(error) = measure(run, lap, group, scene).await {
                run.say(round, &format!("{}: {error}", lap.kind.name()));
            }
        }
    }
}

async fn measure(run: &mut Run<'_>, lap: Lap<'_>, group: &Group, scene: Scene) -> Result<()> {
    let round_trip = group.round_trip().await?;
    // The workers start and connect before the measurement begins.
    let begin = now() + Duration::from_millis(400);
    let time = run.plan.lap(scene.lap_ms);
    let worker = Worker {
        kind: lap.kind,
        urls: group.urls().to_vec(),
        name: format!("bench:one:{:08x}", rand::random::<u32>()),
        tasks: scene.tasks,
        begin: nanos(begin),
        millis: u64::try_from(time.as_millis())?,
    };
    let children = (0..scene.processes).map(|_| worker.spawn());
    let children = children.collect::<Result<Vec<_>>>()?;
    tokio::time::sleep(begin.since(now())).await;
    let before = group.usage().await?;
    let mut holds = Vec::new();
    for (process, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "a worker failed");
        let lines: Vec<Line> = serde_json::from_slice(&output.stdout)?;
        holds.extend(lines.iter().map(|line| {
            let mut hold = hold(process, &line.pair());
            hold.who.task += process * scene.tasks;
            hold
        }));
    }
    let after = group.usage().await?;

    let found = handovers(&holds);
    let mut shares = vec![0; scene.processes];
    for (who, grants) in &found.grants {
        shares[who.locker] += grants;
    }
    let times = Quantiles::of(found.to_another_locker);
    let (seconds, count) = (time.as_secs_f64(), holds.len() as f64);
    run.enter(lap, HANDOVERS, "1/s", times.count() as f64 / seconds);
    let p50 = times.percent(50).map_or(f64::NAN, micros);
    run.enter(lap, HANDOVER, "us", p50);
    run.enter(lap, "handover p50 / round trip", "", p50 / round_trip);
    run.enter(lap, "holds", "1/s", count / seconds);
    run.enter(lap, REQUESTS, "per hold", (after.requests - before.requests) / count);
    run.enter(lap, EVENNESS, "", evenness(&shares));
    Ok(())
}

impl Worker {
    fn spawn(&self) -> Result<tokio::process::Child> {
        let kind = self.kind.to_possible_value().context("none is hidden")?;
        let child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .args(["--kind", kind.get_name(), "--urls", &self.urls.join(","), "--name", &self.name])
            .args(["--tasks", &self.tasks.to_string(), "--begin", &self.begin.to_string()])
            .args(["--millis", &self.millis.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    /// Runs the worker. Returns the text that it prints.
    ///
    /// # Errors
    /// The subject's error.
    pub async fn run(&self) -> Result<String> {
        let subject = self.kind.connect(&self.urls).await?;
        subject.hold(&format!("bench:warm:{}", std::process::id()), Work(None)).await?;
        let begin = Instant::NEVER + Duration::from_nanos(self.begin);
        tokio::time::sleep(begin.since(now())).await;
        let end = begin + Duration::from_millis(self.millis);
        // The token goes from process to process, so one task stands for all tasks of a process.
        let hands_on = self.kind == Kind::TokenRing && self.tasks > 1;
        let (tasks, work) = if hands_on { (1, SERIES) } else { (self.tasks, SECTION) };
        let pairs = tasks::run(&subject, tasks, &Names::of_all(&self.name), work, end).await?;
        Ok(serde_json::to_string(&pairs.iter().map(Line::of).collect::<Vec<_>>())?)
    }
}

impl Line {
    fn of(pair: &Pair) -> Self {
        let [asked, granted, released, done] =
            [pair.asked, pair.granted, pair.released, pair.done].map(nanos);
        Self(pair.task, asked, granted, released, done)
    }

    fn pair(&self) -> Pair {
        let at = |nanos| Instant::NEVER + Duration::from_nanos(nanos);
        Pair {
            task: self.0,
            asked: at(self.1),
            granted: at(self.2),
            released: at(self.3),
            done: at(self.4),
        }
    }
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since(Instant::NEVER).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_survive_the_way_between_processes() {
        let begin = now();
        let at = |ms| begin + Duration::from_millis(ms);
        let pair = Pair { task: 3, asked: at(0), granted: at(1), released: at(2), done: at(3) };
        let text = serde_json::to_string(&Line::of(&pair)).unwrap();
        let back = serde_json::from_str::<Line>(&text).unwrap().pair();
        assert_eq!((back.task, back.asked, back.granted), (3, at(0), at(1)));
        assert_eq!((back.released, back.done), (at(2), at(3)));
    }
}
