//! P12: quorumlock and the clients of other languages, each of these in a process of its own, on
//! the same servers.
//!
//! All clients share one processor, and the servers have the other: a client of another language
//! has threads of its own, which work while the servers do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use quorumlock_lab::judge::{Quantiles, handovers};
use tokio::sync::Mutex;

use super::contended::{ONE, SECTION, hold};
use super::contender::Contender;
use super::pairs::{FRESH, warm};
use super::tasks::{self, Pair};
use super::{Lap, Run, faults};
use crate::driver::{CLIENTS, Contended, Driver, PROGRAMS, Pairs, programs};
use crate::names::Names;
use crate::plan::{HANDOVER, LONGEST, P50, RATE, order};
use crate::subject::{Kind, Subject, What, Work};
use crate::testbed::{Group, micros, now};

/// Pairs of the number of servers and the number of callers that contend for one lock.
const CONTENDED: [(usize, usize); 2] = [(1, 16), (5, 64)];
/// The number of callers of one client.
const MANY: usize = 64;
/// The warm-up of a client: pairs of one caller, and pairs of many callers. Java compiles code that
/// runs often, and compiles it again when its use changes.
const WARM: [(usize, usize); 2] = [(500, 1), (4_000, MANY)];
/// The rest after a warm-up. Java's compiler shares the processor with the pairs, and finishes its
/// work during the rest.
const REST: Duration = Duration::from_secs(3);

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    let Some(programs) = programs() else {
        run.say(0, &format!("skipped: {PROGRAMS}=$(scripts/get-interop) names the other clients"));
        return Ok(());
    };
    for (nodes, waiters) in CONTENDED {
        let group = run.testbed.group(nodes).await?;
        let all = connect(run, &programs, &group, 4).await;
        for round in 0..run.plan.rounds {
            for callers in [1, MANY] {
                run.say(round, &format!("{nodes} node(s), {callers} caller(s)"));
                for at in order(all.len(), round) {
                    let time = run.plan.lap(1_000);
                    let kind = all[at].name();
                    let lap = Lap { round, kind, nodes, tasks: callers, case: FRESH.text };
                    let found = all[at].pairs(callers, time, 20 * callers).await;
                    enter_pairs(run, lap, found);
                }
            }
        }
        // Laps are long, to find the longest wait, so there are at most three rounds.
        for round in 0..run.plan.rounds.min(3) {
            run.say(round, &format!("{nodes} node(s), {waiters} waiters"));
            for at in order(all.len(), round) {
                let time = run.plan.lap(5_000);
                let kind = all[at].name();
                let lap = Lap { round, kind, nodes, tasks: waiters, case: ONE };
                let found = all[at].contend(What::Lock, waiters, time).await;
                enter_contended(run, lap, found);
            }
        }
    }
    for round in 0..run.plan.rounds.min(3) {
        broken(run, &programs, round).await?;
    }
    Ok(())
}

/// Measures five servers, of which one hangs and then dies.
async fn broken(run: &mut Run<'_>, programs: &Path, round: usize) -> Result<()> {
    let group = run.testbed.fresh(faults::NODES).await?;
    // One warm-up is enough: the time of the servers dominates here.
    let all = connect(run, programs, &group, 1).await;
    let victim = &group.servers()?[round % faults::NODES];
    for fault in faults::ALL {
        run.say(round, fault);
        faults::begin(fault, victim)?;
        for at in order(all.len(), round) {
            let kind = all[at].name();
            let lap = Lap { round, kind, nodes: faults::NODES, tasks: 1, case: fault };
            // The first pair does not count.
            let found = all[at].pairs(1, run.plan.lap(500), 1).await;
            enter_pairs(run, lap, found);
        }
        faults::end(fault, victim).await?;
    }
    Ok(())
}

/// Connects and warms up all clients. A client that fails has no figures.
async fn connect(run: &Run<'_>, programs: &Path, group: &Group, times: usize) -> Vec<Contender> {
    let kinds: &[Kind] = match group.urls() {
        [_] => &[Kind::Raw, Kind::Default],
        _ => &[Kind::Raw, Kind::RawMajority, Kind::Default],
    };
    let mut all = Vec::new();
    for &kind in kinds {
        match warm(kind, group.urls(), MANY, run.plan.lap(500)).await {
            Ok(subject) => all.push(Contender::Here(kind, subject)),
            Err(error) => run.say(0, &format!("{} has no lap: {error}", kind.name())),
        }
    }
    for client in &CLIENTS {
        let started = async {
            let mut driver = Driver::start(&programs.join(client.program), group.urls()).await?;
            warm_up(&mut driver, times).await?;
            anyhow::Ok(driver)
        };
        match started.await {
            Ok(driver) => all.push(Contender::There(client, Arc::new(Mutex::new(driver)))),
            Err(error) => run.say(0, &format!("{} has no lap: {error:#}", client.name)),
        }
    }
    all
}

async fn warm_up(driver: &mut Driver, times: usize) -> Result<()> {
    for _ in 0..times {
        for (count, callers) in WARM {
            driver.pairs(What::Lock, count, callers).await?;
        }
        tokio::time::sleep(REST).await;
    }
    Ok(())
}

impl Contender {
    /// Locks fresh names for about this time. Clients of other languages take a number of pairs,
    /// not a time: the first `few` pairs, which do not count, give this number.
    async fn pairs(&self, callers: usize, time: Duration, few: usize) -> Result<Pairs> {
        match self {
            Self::Here(_, subject) => {
                pairs_here(subject, callers, time / 5).await?;
                pairs_here(subject, callers, time).await
            }
            Self::There(_, driver) => {
                let mut driver = driver.lock().await;
                let first = driver.pairs(What::Lock, few, callers).await?;
                let count = (first.rate * time.as_secs_f64()) as usize;
                driver.pairs(What::Lock, count.clamp(callers, MOST), callers).await
            }
        }
    }

    /// Callers want one fresh name for this time.
    pub(super) async fn contend(
        &self,
        what: What,
        waiters: usize,
        time: Duration,
    ) -> Result<Contended> {
        match self {
            Self::Here(_, subject) => {
                contend_here(&subject.clone().taking(what).await?, waiters, time).await
            }
            Self::There(_, driver) => driver.lock().await.contend(what, waiters, time).await,
        }
    }
}

/// The upper limit of pairs in a lap, in case the first pairs give too large a number.
const MOST: usize = 100_000;

async fn pairs_here(subject: &Subject, callers: usize, time: Duration) -> Result<Pairs> {
    let (names, begin) = (Names::fresh_for(time), now());
    let pairs = tasks::run(subject, callers, &names, Work(None), begin + time).await?;
    let seconds = now().since(begin).as_secs_f64();
    let times = Quantiles::of(pairs.iter().map(Pair::took).collect());
    let p50 = times.percent(50).map_or(f64::NAN, micros);
    Ok(Pairs { p50, rate: pairs.len() as f64 / seconds })
}

async fn contend_here(subject: &Subject, waiters: usize, time: Duration) -> Result<Contended> {
    let end = now() + time;
    let pairs = tasks::run(subject, waiters, &Names::one(), SECTION, end).await?;
    let wait = |pair: &Pair| pair.granted.min(end).since(pair.asked);
    let longest = pairs.iter().map(wait).max().map_or(f64::NAN, |wait| micros(wait) / 1e3);
    let in_time = pairs.iter().filter(|pair| pair.granted < end);
    let holds: Vec<_> = in_time.map(|pair| hold(0, pair)).collect();
    let gaps = Quantiles::of(handovers(&holds).to_another_task);
    let gap = gaps.percent(50).map_or(f64::NAN, micros);
    Ok(Contended { gap, longest, grants: holds.len() as f64 })
}

fn enter_pairs(run: &mut Run<'_>, lap: Lap<'_, &'static str>, found: Result<Pairs>) {
    match found {
        Ok(Pairs { p50, rate }) => {
            run.enter(lap, P50, "us", p50);
            run.enter(lap, RATE, "1/s", rate);
        }
        Err(error) => run.say(lap.round, &format!("{}: {error:#}", lap.kind)),
    }
}

fn enter_contended(run: &mut Run<'_>, lap: Lap<'_, &'static str>, found: Result<Contended>) {
    match found {
        // The number of grants is not entered: a sleep of a millisecond takes a different time in
        // each language.
        Ok(Contended { gap, longest, .. }) => {
            run.enter(lap, HANDOVER, "us", gap);
            run.enter(lap, LONGEST, "ms", longest);
        }
        Err(error) => run.say(lap.round, &format!("{}: {error:#}", lap.kind)),
    }
}
