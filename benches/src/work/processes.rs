//! P6: one name, several processes. This program runs itself as the worker.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum as _};
use quorumlock_core::Instant;
use quorumlock_lab::judge::{Quantiles, handovers};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::contended::{SECTION, hold};
use super::reel::{Names, Pair, reel};
use super::{Page, progress};
use crate::bed::{Bed, Group, now};
use crate::book::Book;
use crate::plan::{Plan, order};
use crate::stats::{micros, unfairness};
use crate::subject::{Kind, Work};

/// What a worker is told.
#[derive(Debug, Clone, Args)]
pub struct Worker {
    /// What locks.
    #[arg(long)]
    pub kind: Kind,
    /// Where.
    #[arg(long, value_delimiter = ',')]
    pub urls: Vec<String>,
    /// What.
    #[arg(long)]
    pub name: String,
    /// How many tasks.
    #[arg(long)]
    pub tasks: usize,
    /// When to begin, in nanoseconds of the clock that processes share.
    #[arg(long)]
    pub begin: u64,
    /// For how long, in milliseconds.
    #[arg(long)]
    pub millis: u64,
}

/// A pair as workers print it, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Line(usize, u64, u64, u64, u64);

/// Processes, and tasks in each.
const SHAPES: [(usize, usize); 2] = [(4, 4), (16, 1)];

/// Who contends.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// Processes, and tasks in each.
    pub shape: (usize, usize),
    /// Whether the servers are [far away](FAR).
    pub far: bool,
}

/// So much later arrives what goes to servers that are far away, and what comes from them: there round trips
/// count, and little else.
pub const FAR: Duration = Duration::from_millis(2);

impl Scene {
    /// The name of a metric.
    #[must_use]
    pub fn metric(&self, what: &str) -> String {
        let (processes, tasks) = self.shape;
        let far = if self.far { ", far" } else { "" };
        format!("{what}, {processes}x{tasks}{far}")
    }

    /// Long enough for each process to have its turn often: a lap ends in the middle of somebody's.
    const fn lap_ms(&self) -> u64 {
        match self {
            Self { shape: (_, 1), far: false } => 2_000,
            _ => 6_000,
        }
    }
}

/// As long as four tasks of a process that uses quorumlock go on among themselves: 17 holds of about 2 ms.
const SERIES: Work = Work(Some(Duration::from_millis(34)));

/// In round trips.
pub const HANDOVER: &str = "handover to another process p50";
/// What the servers do for each acquisition.
pub const COMMANDS: &str = "commands per acquisition";
/// The most acquisitions of a process over the fewest.
pub const FAIRNESS: &str = "acquisitions of processes max/min";

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    for nodes in [1, 5] {
        let group = bed.group(nodes).await?;
        for shape in SHAPES {
            laps(group, nodes, Scene { shape, far: false }, plan, book).await?;
        }
        let relay = group.relay(FAR).await?;
        let group = Group::of(relay.urls()).await?;
        laps(&group, nodes, Scene { shape: SHAPES[1], far: true }, plan, book).await?;
    }
    Ok(())
}

async fn laps(
    group: &Group,
    nodes: usize,
    scene: Scene,
    plan: &Plan,
    book: &mut Book,
) -> Result<()> {
    let mut kinds = vec![Kind::Raw, Kind::Default, Kind::Like, Kind::Rslock, Kind::Baton];
    if nodes > 1 {
        kinds.push(Kind::LockBaton);
    } else if scene.shape.1 == 1 {
        kinds.extend([Kind::Bump, Kind::LikeBump]);
    }
    for round in 0..plan.rounds {
        progress("P6", round, &scene.metric(&format!("{nodes} node(s)")));
        for at in order(kinds.len(), round) {
            let kind = kinds[at];
            let tasks = scene.shape.0 * scene.shape.1;
            let page = Page { book, round, id: "P6", kind, nodes, tasks };
            if let Err(error) = lap(page, group, scene, plan.lap(scene.lap_ms())).await {
                progress("P6", round, &format!("{}: {error}", kind.name()));
            }
        }
    }
    Ok(())
}

async fn lap(mut page: Page<'_>, group: &Group, scene: Scene, time: Duration) -> Result<()> {
    let (processes, tasks) = scene.shape;
    // Where others wait ours asks by scripts, and so does a release that hands the name over.
    let ours = matches!(page.kind, Kind::Like | Kind::LikeBump);
    let plain = page.kind.sends_set(page.nodes) && !(ours && page.nodes == 1);
    let round_trip = group.round_trip().await?;
    // Time to start, and to connect: that counts for nobody.
    let begin = now() + Duration::from_millis(400);
    let worker = Worker {
        kind: page.kind,
        urls: group.urls(),
        name: format!("bench:one:{}", rand::random::<u32>()),
        tasks,
        begin: nanos(begin),
        millis: u64::try_from(time.as_millis())?,
    };
    let children = (0..processes).map(|_| worker.spawn());
    let children = children.collect::<Result<Vec<_>>>()?;
    tokio::time::sleep(begin.since(now())).await;
    let before = group.tally(plain).await?;
    let mut holds = Vec::new();
    for (process, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "a worker failed");
        let lines: Vec<Line> = serde_json::from_slice(&output.stdout)?;
        holds.extend(lines.iter().map(|line| {
            let mut hold = hold(process, &line.pair());
            hold.who.task += process * tasks;
            hold
        }));
    }
    let after = group.tally(plain).await?;

    let found = handovers(&holds);
    let mut shares = vec![0; processes];
    for (who, grants) in &found.grants {
        shares[who.locker] += grants;
    }
    let times = Quantiles::of(found.to_another_locker);
    let p50 = times.percent(50).map_or(f64::NAN, micros);
    let among = times.count() as f64 / holds.len() as f64;
    page.enter(&scene.metric(HANDOVER), "round trips", p50 / round_trip);
    page.enter(&scene.metric("handovers to another process"), "%", among * 100.0);
    let commands = (after.commands - before.commands) as f64 / holds.len() as f64;
    // Far away there are few acquisitions: connecting would be most of it.
    if !scene.far {
        page.enter(&scene.metric(COMMANDS), "", commands);
    }
    page.enter(&scene.metric(FAIRNESS), "", unfairness(&shares).unwrap_or(f64::NAN));
    page.enter(&scene.metric("acquisitions"), "1/s", holds.len() as f64 / time.as_secs_f64());
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

    /// What the worker does; the text that it prints.
    ///
    /// # Errors
    /// What the subject says.
    pub async fn run(&self) -> Result<String> {
        let subject = self.kind.connect(&self.urls).await?;
        subject.hold(&format!("bench:warm:{}", std::process::id()), Work(None)).await?;
        let begin = Instant::NEVER + Duration::from_nanos(self.begin);
        tokio::time::sleep(begin.since(now())).await;
        let end = begin + Duration::from_millis(self.millis);
        // The token goes from process to process, and knows of no tasks.
        let hands_on = matches!(self.kind, Kind::Baton | Kind::LockBaton) && self.tasks > 1;
        let (tasks, work) = if hands_on { (1, SERIES) } else { (self.tasks, SECTION) };
        let pairs = reel(&subject, tasks, Names::One(&self.name), work, end).await?;
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
