//! P1 to P4: locks without contention.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use quorumlock_lab::judge::Quantiles;

use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::cpu;
use crate::names::Names;
use crate::plan::{P50, RATE, REQUESTS, order};
use crate::subject::{Kind, Subject, Work};
use crate::testbed::{Group, micros, now};

/// Each name is locked once.
pub(super) const FRESH: &str = "fresh names";
/// Each task locks one name again and again.
pub(super) const REPEATED: &str = "repeated names";

/// The subjects of a sweep, and how they are measured.
pub(super) struct Sweep<'a> {
    pub(super) nodes: usize,
    pub(super) kinds: &'a [Kind],
    pub(super) cases: &'a [&'static str],
    pub(super) tasks: &'a [usize],
    /// The time that each subject runs in a round.
    pub(super) time: Duration,
}

pub(super) async fn run(run: &mut Run<'_>, nodes: usize, tasks: &[usize]) -> Result<()> {
    use Kind::{Bulk, Default, Like, Pings, Raw, RawMajority, RedisLock, Rslock};
    let mut kinds = vec![Raw, Default, Like, Rslock, RedisLock, Pings];
    if nodes > 1 {
        kinds.insert(1, RawMajority);
    }
    if tasks != [1] {
        kinds.push(Bulk);
    }
    let time = run.plan.lap(if tasks == [1] { 400 } else { 500 });
    sweep(run, &Sweep { nodes, kinds: &kinds, cases: &[FRESH, REPEATED], tasks, time }).await
}

/// Measures all subjects in all cases, interleaved.
pub(super) async fn sweep(run: &mut Run<'_>, sweep: &Sweep<'_>) -> Result<()> {
    let group = run.testbed.group(sweep.nodes).await?;
    for &tasks in sweep.tasks {
        let mut subjects = Vec::new();
        for &kind in sweep.kinds {
            match warm(kind, group.urls(), tasks, sweep.time).await {
                Ok(subject) => {
                    let cases = sweep.cases.iter();
                    subjects.extend(cases.map(|case| (kind, subject.clone(), *case)));
                }
                Err(error) => run.say(0, &format!("{} has no lap: {error}", kind.name())),
            }
        }
        for round in 0..run.plan.rounds {
            run.say(round, &format!("{} node(s), {tasks} task(s)", sweep.nodes));
            round_of(run, &group, &subjects, round, tasks, sweep.time).await;
        }
    }
    Ok(())
}

/// A busy machine has phases of seconds, and figures are compared within a round. With one task,
/// the subjects are therefore measured in many slices, in rotation.
async fn round_of(
    run: &mut Run<'_>,
    group: &Group,
    subjects: &[(Kind, Subject, &str)],
    round: usize,
    tasks: usize,
    time: Duration,
) {
    let slices = if tasks == 1 { 20 } else { 1 };
    let mut measured: Vec<_> = subjects.iter().map(|_| Some(Measured::default())).collect();
    for slice in 0..slices {
        for at in order(subjects.len(), round * slices as usize + slice as usize) {
            let (kind, subject, case) = &subjects[at];
            if let Some(found) = &mut measured[at]
                && let Err(error) = found.slice(group, subject, tasks, case, time / slices).await
            {
                run.say(round, &format!("{}: {error}", kind.name()));
                measured[at] = None;
            }
        }
    }
    for ((kind, _, case), found) in subjects.iter().zip(measured) {
        let lap = Lap { round, kind: *kind, nodes: group.urls().len(), tasks, case };
        if let Some(found) = found {
            found.enter(run, lap);
        }
    }
}

/// The measurements of one subject in one round.
#[derive(Default)]
struct Measured {
    pairs: f64,
    times: Vec<Duration>,
    seconds: f64,
    requests: f64,
    client_cpu: f64,
    server_cpu: f64,
}

impl Measured {
    async fn slice(
        &mut self,
        group: &Group,
        subject: &Subject,
        tasks: usize,
        case: &str,
        time: Duration,
    ) -> Result<()> {
        let names = match case {
            FRESH => Names::fresh_for(time),
            _ => Names::repeated(tasks),
        };
        let before = group.usage().await?;
        let (cpu, begin) = (cpu::used_by_us(), now());
        if let Subject::Bulk(bulk) = subject {
            self.pairs += bulk.pairs(tasks, &names, begin + time).await? as f64;
        } else {
            let pairs = tasks::run(subject, tasks, &names, Work(None), begin + time).await?;
            self.pairs += pairs.len() as f64;
            self.times.extend(pairs.iter().map(Pair::took));
        }
        self.seconds += now().since(begin).as_secs_f64();
        let cpu = cpu.zip(cpu::used_by_us()).map_or(f64::NAN, |(from, to)| micros(to - from));
        let after = group.usage().await?;
        self.client_cpu += cpu;
        self.requests += after.requests - before.requests;
        self.server_cpu += after.cpu - before.cpu;
        Ok(())
    }

    fn enter(self, run: &mut Run<'_>, lap: Lap<'_>) {
        let times = Quantiles::of(self.times);
        let percent = |percent| times.percent(percent).map_or(f64::NAN, micros);
        run.enter(lap, P50, "us", percent(50));
        run.enter(lap, "pair p99", "us", percent(99));
        run.enter(lap, RATE, "1/s", self.pairs / self.seconds);
        run.enter(lap, REQUESTS, "per pair", self.requests / self.pairs);
        run.enter(lap, "client CPU", "us per pair", self.client_cpu / self.pairs);
        run.enter(lap, "server CPU", "us per pair", self.server_cpu / self.pairs);
    }
}

/// Connects a subject, loads its scripts and allocates memory. First acquisitions cost servers more
/// than later ones, and the last of them would take too long if all came at once.
pub(super) async fn warm(
    kind: Kind,
    urls: &[String],
    tasks: usize,
    time: Duration,
) -> Result<Subject> {
    const CROWD: usize = 256;
    let subject = kind.connect(urls).await?;
    let names = Names::repeated(tasks);
    for crowd in names.all().chunks(CROWD) {
        try_join_all(crowd.iter().map(|name| subject.hold(name, Work(None)))).await?;
    }
    tasks::run(&subject, tasks, &names, Work(None), now() + time / 10).await?;
    Ok(subject)
}
