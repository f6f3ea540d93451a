//! The workloads.

mod contended;
mod contender;
mod crowd;
mod faults;
mod growth;
mod held;
mod kinds;
mod languages;
mod memory;
mod pairs;
mod price;
mod processes;
mod tasks;

use anyhow::{Result, bail};

pub use self::held::Holder;
pub use self::processes::Worker;

use crate::cpu::Core;
use crate::plan::{Plan, Workload};
use crate::results::{Key, Results};
use crate::subject::Kind;
use crate::testbed::{Group, Testbed};

/// A run of one workload on servers of one kind.
pub struct Run<'a> {
    /// The workload.
    pub workload: &'static Workload,
    /// The servers.
    pub testbed: &'a mut Testbed,
    /// The plan: how long and how often.
    pub plan: &'a Plan,
    /// The figures so far.
    pub results: Results,
}

/// The identity of a measurement: round, subject, servers, tasks and case. The subject is a kind, or
/// the name of any client.
#[derive(Clone, Copy)]
struct Lap<'a, S = Kind> {
    round: usize,
    kind: S,
    nodes: usize,
    tasks: usize,
    case: &'a str,
}

/// Runs a workload on the testbeds that it is for: pairs and memory on all of them, other workloads
/// on the first.
///
/// # Errors
/// If the servers fail. A subject that fails has no figures, and stderr shows its error.
pub async fn run(
    workload: &'static Workload,
    testbeds: &mut [Testbed],
    plan: &Plan,
) -> Result<Results> {
    let everywhere = matches!(workload.id, "P1" | "P2" | "P3" | "P4" | "P11");
    let count = if everywhere { testbeds.len() } else { 1 };
    let new = |testbed| Run { workload, testbed, plan, results: Results::default() };
    let mut runs: Vec<_> = testbeds.iter_mut().take(count).map(new).collect();
    match workload.id {
        "P11" => memory::run(&mut runs).await?,
        _ => {
            for run in &mut runs {
                run.go().await?;
            }
        }
    }
    let mut results = Results::default();
    runs.into_iter().for_each(|run| results.take_over(run.results));
    Ok(results)
}

impl Run<'_> {
    async fn go(&mut self) -> Result<()> {
        // A client that awaits each answer leaves the processor to the servers meanwhile, so both
        // can share one. Many tasks work while the servers do, and get a processor of their own.
        let many = matches!(self.workload.id, "P2" | "P4" | "P12");
        self.testbed.clients_on(if many { Core::Clients } else { Core::Servers });
        match self.workload.id {
            "P1" => pairs::run(self, 1, &[1]).await,
            "P2" => pairs::run(self, 1, &[64, 1_024]).await,
            "P3" => pairs::run(self, 5, &[1]).await,
            "P4" => pairs::run(self, 5, &[64, 1_024]).await,
            "P5" => contended::run(self).await,
            "P6" => processes::run(self).await,
            "P7" => crowd::run(self).await,
            "P8" => faults::run(self).await,
            "P9" => held::run(self).await,
            "P10" => price::run(self).await,
            "P12" => languages::run(self).await,
            "P13" => kinds::run(self).await,
            "growth" => growth::run(self).await,
            id => bail!("{id} is no workload"),
        }
    }

    fn key<S: Into<&'static str>>(&self, lap: Lap<'_, S>, metric: &str, unit: &str) -> Key {
        Key {
            workload: self.workload.id.to_owned(),
            server: self.testbed.name(),
            nodes: lap.nodes,
            tasks: lap.tasks,
            case: lap.case.to_owned(),
            subject: lap.kind.into().to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
        }
    }

    fn enter<S>(&mut self, lap: Lap<'_, S>, metric: &str, unit: &str, value: f64)
    where
        S: Into<&'static str>,
    {
        let (round, key) = (lap.round, self.key(lap, metric, unit));
        self.results.enter(round, key, value);
    }

    /// Starts etcd beside so many servers: one member beside one, three beside several. Without etcd
    /// on this machine, says so on stderr.
    fn etcd(&self, beside: usize) -> Option<Group> {
        let started = self.testbed.etcd(if beside == 1 { 1 } else { 3 });
        let say = |error: &anyhow::Error| self.say(0, &format!("no rows of etcd: {error}"));
        started.inspect_err(say).ok()
    }

    /// Prints progress on stderr.
    fn say(&self, round: usize, what: &str) {
        eprintln!("{} on {}, round {}: {what}", self.workload.id, self.testbed.name(), round + 1);
    }
}
