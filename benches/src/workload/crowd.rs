//! P7: fifty contenders for one name on five servers. Each has a locker and connections of its own,
//! as if it were a process; only the runtime is shared.
//!
//! The ideal: after a holder's work the next contender gets the lock after a single round trip to
//! all servers.

use std::time::Duration;

use anyhow::Result;
use quorumlock_protocol::Instant;

use super::contended::{ONE, section};
use super::tasks::{self, Pair};
use super::{Lap, Run};
use crate::names::Names;
use crate::plan::{REQUESTS, order};
use crate::subject::{Kind, Work};
use crate::testbed::{Group, now};

const NODES: usize = 5;
const CONTENDERS: usize = 50;
const SECTION: Work = Work(Some(Duration::from_millis(10)));
/// The time in milliseconds before the measurement: all contenders start at once and first have to
/// subscribe.
const BEGINNING: u64 = 500;

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    use Kind::{Default, Like, Raw, Rslock, TokenRing};
    let group = run.testbed.group(NODES).await?;
    let kinds = [Raw, Default, Like, Rslock, TokenRing];
    for round in 0..run.plan.rounds {
        run.say(round, &format!("{NODES} nodes, {CONTENDERS} contenders"));
        for at in order(kinds.len(), round) {
            let lap = Lap { round, kind: kinds[at], nodes: NODES, tasks: CONTENDERS, case: ONE };
            if let Err(error) = measure(run, lap, &group).await {
                run.say(round, &format!("{}: {error}", lap.kind.name()));
            }
        }
    }
    Ok(())
}

async fn measure(run: &mut Run<'_>, lap: Lap<'_>, group: &Group) -> Result<()> {
    let round_trip = group.round_trip().await? / 1e6;
    let mut contenders = Vec::new();
    for i in 0..CONTENDERS {
        let contender = lap.kind.connect(group.urls()).await?;
        contender.hold(&format!("bench:warm:{i}"), Work(None)).await?;
        contenders.push(contender);
    }
    let names = Names::one();
    let begin = now() + run.plan.lap(BEGINNING);
    let end = begin + run.plan.lap(3_000);
    let all = contenders.iter().map(|subject| tasks::run(subject, 1, &names, SECTION, end));
    let usage = async |at: Instant| {
        tokio::time::sleep(at.since(now())).await;
        anyhow::Ok((now(), group.usage().await?))
    };
    let (held, before, after) =
        tokio::join!(futures::future::join_all(all), usage(begin), usage(end));
    let ((begin, before), (end, after)) = (before?, after?);
    let mut pairs: Vec<Pair> = Vec::new();
    for pairs_of_one in held {
        pairs.extend(pairs_of_one?.into_iter().filter(|pair| (begin..end).contains(&pair.granted)));
    }
    let (section, count) = (section(&pairs).as_secs_f64(), pairs.len() as f64);
    let share = |turn: f64| count * turn / end.since(begin).as_secs_f64() * 100.0;
    run.enter(lap, "of the ideal", "%", share(section + round_trip));
    run.enter(lap, "of the time held", "%", share(section));
    run.enter(lap, REQUESTS, "per hold", (after.requests - before.requests) / count);
    run.enter(lap, "server CPU", "us per hold", (after.cpu - before.cpu) / count);
    Ok(())
}
