//! P1 to P4, and the flow of all workloads without contention.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use quorumlock_lab::judge::Quantiles;
use tokio::sync::Mutex;

use super::contender::Contender;
use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::cpu;
use crate::driver::{Client, Driver, PROGRAMS, programs};
use crate::names::Names;
use crate::plan::{P50, RATE, REQUESTS, order};
use crate::subject::{Kind, Others, Subject, What, Work};
use crate::testbed::{Group, micros, now};

/// What is taken, and of which names.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// The name in reports.
    pub(super) text: &'static str,
    pub(super) what: What,
    /// Whether each name is used once.
    pub(super) fresh: bool,
}

/// Each name is locked once.
pub(super) const FRESH: Case = Case { text: "fresh names", what: What::Lock, fresh: true };
/// Each task locks one name again and again.
pub(super) const REPEATED: Case = Case { text: "repeated names", fresh: false, ..FRESH };

/// The subjects of a sweep, and how they are measured.
pub(super) struct Sweep<'a> {
    pub(super) nodes: usize,
    pub(super) kinds: &'a [Kind],
    /// Clients of other languages, each with one caller.
    pub(super) clients: &'a [&'static Client],
    pub(super) cases: &'a [Case],
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
    let cases = &[FRESH, REPEATED];
    sweep(run, &Sweep { nodes, kinds: &kinds, clients: &[], cases, tasks, time }).await?;
    beside_etcd(run, nodes, tasks, time).await
}

/// The same on etcd: one member beside one server, three beside several. Not in turns with the others,
/// for etcd goes on working when a lap has ended.
async fn beside_etcd(
    run: &mut Run<'_>,
    nodes: usize,
    tasks: &[usize],
    time: Duration,
) -> Result<()> {
    /// More tasks would wait for longer than a locker waits for an answer.
    const MOST_TASKS: usize = 64;
    let Some(group) = run.etcd(nodes) else { return Ok(()) };
    let tasks: Vec<_> = tasks.iter().copied().filter(|tasks| *tasks <= MOST_TASKS).collect();
    let (kinds, nodes) = (&[Kind::Etcd], group.urls().len());
    let sweep = Sweep { nodes, kinds, clients: &[], cases: &[FRESH], tasks: &tasks, time };
    sweep_on(run, &group, &sweep).await;
    Ok(())
}

/// A client in a case.
pub(super) struct Entry {
    pub(super) contender: Contender,
    pub(super) case: Case,
    /// What another client holds meanwhile.
    _others: Others,
}

impl Case {
    /// The names for a lap of this length.
    fn names(self, tasks: usize, time: Duration) -> Names {
        match self.what {
            _ if self.fresh => Names::fresh_for(time),
            What::Permit { .. } => Names::of_all(&format!("bench:{}", self.what)),
            _ => Names::repeated(tasks),
        }
    }
}

/// Measures all subjects in all cases, interleaved.
pub(super) async fn sweep(run: &mut Run<'_>, sweep: &Sweep<'_>) -> Result<()> {
    let group = run.testbed.group(sweep.nodes).await?;
    sweep_on(run, &group, sweep).await;
    Ok(())
}

async fn sweep_on(run: &mut Run<'_>, group: &Group, sweep: &Sweep<'_>) {
    for &tasks in sweep.tasks {
        let mut entries = Vec::new();
        for &kind in sweep.kinds {
            match here(kind, sweep, group.urls(), tasks).await {
                Ok(more) => entries.extend(more),
                Err(error) => run.say(0, &format!("{} has no lap: {error}", kind.name())),
            }
        }
        for &client in sweep.clients {
            match there(client, sweep, group.urls()).await {
                Ok(more) => entries.extend(more),
                Err(error) => run.say(0, &format!("{} has no lap: {error:#}", client.name)),
            }
        }
        for round in 0..run.plan.rounds {
            run.say(round, &format!("{} node(s), {tasks} task(s)", sweep.nodes));
            round_of(run, group, &entries, round, tasks, sweep.time).await;
        }
    }
}

/// A subject of this process in its cases, connected and warm.
pub(super) async fn here(
    kind: Kind,
    sweep: &Sweep<'_>,
    urls: &[String],
    tasks: usize,
) -> Result<Vec<Entry>> {
    let warm = warm(kind, urls, tasks, sweep.time).await?;
    let mut entries = Vec::new();
    for case in sweep.cases.iter().filter(|case| kind.takes(case.what)) {
        let (what, names) = (case.what, case.names(tasks, sweep.time));
        let subject = warm.clone().taking(what).await?;
        let mut others = Others::default();
        if what.held() > 0 {
            let other = kind.connect(urls).await?.taking(what).await?;
            others = other.occupy(&names.all()[0]).await?;
        }
        if what != What::Lock {
            let end = now() + sweep.time / 10;
            tasks::run(&subject, tasks, &names, Work(None), end).await?;
        }
        let contender = Contender::Here(kind, subject);
        entries.push(Entry { contender, case: *case, _others: others });
    }
    Ok(entries)
}

/// A client of another language in its cases, started and warm.
pub(super) async fn there(
    client: &'static Client,
    sweep: &Sweep<'_>,
    urls: &[String],
) -> Result<Vec<Entry>> {
    /// Java compiles code that runs often, in threads that share the processor with the pairs.
    const WARM: usize = 3_000;
    const REST: Duration = Duration::from_secs(3);
    let programs = programs().with_context(|| format!("{PROGRAMS} names no programs"))?;
    let driver = Driver::start(&programs.join(client.program), urls).await?;
    let driver = Arc::new(Mutex::new(driver));
    let cases: Vec<_> = sweep.cases.iter().filter(|case| client.takes(case.what)).collect();
    for _ in 0..2 {
        for case in &cases {
            driver.lock().await.pairs(case.what, WARM, 1).await?;
        }
        tokio::time::sleep(REST).await;
    }
    let entry = |case: &Case| {
        let contender = Contender::There(client, Arc::clone(&driver));
        Entry { contender, case: *case, _others: Others::default() }
    };
    Ok(cases.into_iter().map(entry).collect())
}

/// A busy machine has phases of seconds, and figures are compared within a round. With one task,
/// the subjects are therefore measured in many slices, in rotation.
async fn round_of(
    run: &mut Run<'_>,
    group: &Group,
    entries: &[Entry],
    round: usize,
    tasks: usize,
    time: Duration,
) {
    let slices = if tasks == 1 { 20 } else { 1 };
    let mut measured: Vec<_> = entries.iter().map(|_| Some(Measured::default())).collect();
    for slice in 0..slices {
        for at in order(entries.len(), round * slices as usize + slice as usize) {
            let entry = &entries[at];
            if let Some(found) = &mut measured[at]
                && let Err(error) = found.slice(group, entry, tasks, time / slices).await
            {
                run.say(round, &format!("{}: {error}", entry.contender.name()));
                measured[at] = None;
            }
        }
    }
    for (entry, found) in entries.iter().zip(measured) {
        let (kind, case) = (entry.contender.name(), entry.case.text);
        let lap = Lap { round, kind, nodes: group.urls().len(), tasks, case };
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
    /// Of each slice, of a client in another process.
    medians: Vec<Duration>,
    seconds: f64,
    requests: f64,
    client_cpu: f64,
    server_cpu: f64,
}

impl Measured {
    async fn slice(
        &mut self,
        group: &Group,
        entry: &Entry,
        tasks: usize,
        time: Duration,
    ) -> Result<()> {
        let names = entry.case.names(tasks, time);
        let _subscriber = entry.contender.subscriber();
        let before = group.usage().await?;
        let (cpu, begin) = (cpu::used_by_us(), now());
        match &entry.contender {
            Contender::Here(_, Subject::Bulk(bulk)) => {
                self.pairs += bulk.pairs(tasks, &names, begin + time).await? as f64;
                self.seconds += now().since(begin).as_secs_f64();
            }
            Contender::Here(_, subject) => {
                let pairs = tasks::run(subject, tasks, &names, Work(None), begin + time).await?;
                self.seconds += now().since(begin).as_secs_f64();
                self.pairs += pairs.len() as f64;
                self.times.extend(pairs.iter().map(Pair::took));
            }
            Contender::There(_, driver) => {
                let count = self.pairs_in(time);
                let found = driver.lock().await.pairs(entry.case.what, count, tasks).await?;
                self.seconds += count as f64 / found.rate;
                self.pairs += count as f64;
                self.medians.push(Duration::from_secs_f64(found.p50 / 1e6));
            }
        }
        let cpu = cpu.zip(cpu::used_by_us()).map_or(f64::NAN, |(from, to)| micros(to - from));
        let after = group.usage().await?;
        self.client_cpu += cpu;
        self.requests += after.requests - before.requests;
        self.server_cpu += after.cpu - before.cpu;
        Ok(())
    }

    /// Clients of other languages take a number of pairs, not a time: the slices so far give it.
    fn pairs_in(&self, time: Duration) -> usize {
        const FIRST: usize = 20;
        let count = (self.pairs / self.seconds * time.as_secs_f64()) as usize;
        if self.pairs > 0.0 { count.max(1) } else { FIRST }
    }

    fn enter(self, run: &mut Run<'_>, lap: Lap<'_, &'static str>) {
        let there = !self.medians.is_empty();
        let times = Quantiles::of(if there { self.medians } else { self.times });
        let percent = |percent| times.percent(percent).map_or(f64::NAN, micros);
        run.enter(lap, P50, "us", percent(50));
        // The p99 of medians says nothing, and the processor time of another process is not ours.
        let here = |value: f64| if there { f64::NAN } else { value };
        run.enter(lap, "pair p99", "us", here(percent(99)));
        run.enter(lap, RATE, "1/s", self.pairs / self.seconds);
        run.enter(lap, REQUESTS, "per pair", self.requests / self.pairs);
        run.enter(lap, "client CPU", "us per pair", here(self.client_cpu / self.pairs));
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
