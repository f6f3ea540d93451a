//! P13: several names in one step, permits, readers and writers, and strict order, beside a lock.

use anyhow::Result;

use super::pairs::{Case, FRESH, Sweep, here, sweep, there};
use super::{Lap, Run};
use crate::driver::{CLIENTS, Client};
use crate::plan::{OVER_EXCLUSIVE, OVER_LOCK, OVER_SCRIPT, P50, RATE, order};
use crate::results::{Key, Results, Row};
use crate::subject::{Kind, What};

/// The cases. A lock and sets of names are fresh each time; permits are those of one name.
const CASES: [Case; 8] = [
    FRESH,
    Case { text: "sets of 2 fresh names", what: What::Names(2), fresh: true },
    Case { text: "sets of 10 fresh names", what: What::Names(10), fresh: true },
    Case { text: "one of 5 permits", what: What::Permit { of: 5, held: 0 }, fresh: false },
    Case { text: "the last of 10 permits", what: What::Permit { of: 10, held: 9 }, fresh: false },
    Case { text: "reading fresh names", what: What::Read, fresh: true },
    Case { text: "writing fresh names", what: What::Write, fresh: true },
    Case { text: "fresh names in strict order", what: What::InOrder, fresh: true },
];

/// Tasks that want one name, each alone, and to read.
const TOGETHER: [Case; 2] = [
    Case { text: "one name", what: What::Lock, fresh: true },
    Case { text: "reading one name", what: What::Read, fresh: true },
];
/// The number of these tasks.
const READERS: usize = 64;

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    let kinds = &[Kind::Raw, Kind::Default, Kind::ScriptsOnly];
    let has_another = |client: &&Client| CASES[1..].iter().any(|case| client.takes(case.what));
    let clients: Vec<_> = CLIENTS.iter().filter(has_another).collect();
    let (clients, cases, time) = (&clients[..], &CASES, run.plan.lap(400));
    sweep(run, &Sweep { nodes: 1, kinds, clients, cases, tasks: &[1], time }).await?;
    let medians = run.results.rows(run.workload.id).filter(|row| row.key.metric == P50);
    let medians: Vec<_> = medians.cloned().collect();
    over_lock(&mut run.results, &medians);
    together(run).await
}

/// Measures the tasks that want one name, and enters the ratio of readers to holders that exclude
/// each other.
async fn together(run: &mut Run<'_>) -> Result<()> {
    let (group, time) = (run.testbed.group(1).await?, run.plan.lap(1_000));
    let reads = |client: &&Client| client.takes(What::Read);
    let clients: Vec<_> = CLIENTS.iter().filter(reads).collect();
    let (kinds, clients, cases) = (&[Kind::Default], &clients[..], &TOGETHER);
    let sweep = Sweep { nodes: 1, kinds, clients, cases, tasks: &[READERS], time };
    let mut entries = here(Kind::Default, &sweep, group.urls(), READERS).await?;
    for &client in clients {
        match there(client, &sweep, group.urls()).await {
            Ok(more) => entries.extend(more),
            Err(error) => run.say(0, &format!("{} has no lap: {error:#}", client.name)),
        }
    }
    for round in 0..run.plan.rounds {
        run.say(round, &format!("1 node(s), {READERS} task(s) of one name"));
        let mut rates = vec![f64::NAN; entries.len()];
        for at in order(entries.len(), round) {
            let (contender, case) = (&entries[at].contender, entries[at].case);
            match contender.contend(case.what, READERS, time).await {
                Ok(found) => rates[at] = found.grants / time.as_secs_f64(),
                Err(error) => run.say(round, &format!("{}: {error:#}", contender.name())),
            }
        }
        for (entry, rate) in entries.iter().zip(&rates) {
            let (kind, case) = (entry.contender.name(), entry.case.text);
            let lap = Lap { round, kind, nodes: 1, tasks: READERS, case };
            run.enter(lap, RATE, "1/s", *rate);
            let alone = entries
                .iter()
                .zip(&rates)
                .find(|(other, _)| other.contender.name() == kind && other.case.what == What::Lock);
            if entry.case.what != What::Lock
                && let Some((_, alone)) = alone
            {
                run.enter(lap, OVER_EXCLUSIVE, "", rate / alone);
            }
        }
    }
    Ok(())
}

/// Enters the ratio of each pair to the pair of a lock, round by round: to the same subject's, and
/// of ours also to a lock that a script takes, as a script takes several names.
fn over_lock(results: &mut Results, medians: &[Row]) {
    let is_lock = |row: &&Row| row.key.case == FRESH.text;
    for row in medians.iter().filter(|row| !is_lock(row)) {
        let mut ratios = vec![(OVER_LOCK, row.key.subject.as_str())];
        if row.key.subject == Kind::Default.name() {
            ratios.push((OVER_SCRIPT, Kind::ScriptsOnly.name()));
        }
        for (metric, subject) in ratios {
            let mut locks = medians.iter().filter(is_lock);
            let Some(lock) = locks.find(|lock| lock.key.subject == subject) else { continue };
            for (round, (pair, lock)) in row.rounds.iter().zip(&lock.rounds).enumerate() {
                let ratio = pair.zip(*lock).map_or(f64::NAN, |(pair, lock)| pair / lock);
                let (metric, unit) = (metric.to_owned(), String::new());
                results.enter(round, Key { metric, unit, ..row.key.clone() }, ratio);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_compared_with_a_lock_of_the_same_round() {
        let key = |case: &Case, subject: Kind, metric: &str| Key {
            workload: "P13".into(),
            case: case.text.into(),
            subject: subject.name().into(),
            metric: metric.into(),
            ..Key::default()
        };
        let mut results = Results::default();
        for (case, subject, times) in [
            (&FRESH, Kind::Default, [50.0, 100.0]),
            (&FRESH, Kind::ScriptsOnly, [f64::NAN, 125.0]),
            (&CASES[1], Kind::Default, [75.0, 150.0]),
        ] {
            for (round, time) in times.into_iter().enumerate() {
                results.enter(round, key(case, subject, P50), time);
            }
        }
        let medians: Vec<_> = results.rows("P13").cloned().collect();
        over_lock(&mut results, &medians);
        let rounds = |metric| {
            let row = results.find(&key(&CASES[1], Kind::Default, metric));
            row.map(|row| row.rounds.clone())
        };
        assert_eq!(rounds(OVER_LOCK), Some(vec![Some(1.5), Some(1.5)]));
        assert_eq!(rounds(OVER_SCRIPT), Some(vec![None, Some(1.2)]));
        assert_eq!(results.find(&key(&FRESH, Kind::Default, OVER_LOCK)), None);
    }
}
