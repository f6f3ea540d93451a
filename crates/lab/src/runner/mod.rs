//! Carries out a scenario in a mode: starts servers and locker processes, injects faults by a
//! schedule, records every event, and judges the history on disk.
//!
//! Servers and workers end with the trial, however it ends.

mod attempts;
mod control;
mod deployment;
mod driver;
pub mod environment;
mod error;
mod fleet;
mod library;
mod nemesis;
mod operator;
mod recorder;
mod replication;
pub(crate) mod resource;
mod run_file;
mod schedule;
pub(crate) mod simulation;
mod verdict;
mod workers;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures::future::join_all;
use quorumlock_watchdog::Clock;
use tokio::sync::watch;

use self::attempts::attempts;
use self::control::blocking;
use self::deployment::{Deployment, Requests};
pub use self::driver::{Driver, NoDriver};
pub use self::error::TrialError;
use self::fleet::Fleet;
pub use self::library::Library;
use self::nemesis::Nemesis;
use self::recorder::{ClientStates, HistorySender, Recorder};
use self::resource::Resource;
use self::run_file::{RunFile, Timeouts};
pub use self::workers::Program;
use self::workers::Worker;
use crate::mode::Mode;
use crate::record::{self, Expected, Load, NodeFacts, Observed, Run};
use crate::runner::simulation::SimRun;
use crate::scenario::{Locking, Plan, Scenario, Waiting};
use crate::timestamp;
use crate::worker::Config;
use quorumlock_testbed::servers::Shift;

/// One scenario in one mode, once.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The lock configuration.
    pub mode: Mode,
    /// Determines every random number.
    pub seed: u64,
    /// The repetition of this scenario, mode and seed, from zero.
    pub repetition: u64,
    /// Whether the run is short.
    pub quick: bool,
    /// The load of a comparison.
    pub load: Option<Load>,
    /// The takeover delay in milliseconds; `None`: that of the plan.
    pub takeover_delay_ms: Option<u64>,
    /// The library whose locks are taken; `None`: quorumlock.
    pub library: Option<&'static Library>,
}

/// A worker starts in a few milliseconds on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// That of another library may need a virtual machine, and compile itself.
const LIBRARY_READY_WITHIN: Duration = Duration::from_secs(90);

/// The factor for the times of a plan with containers: the engine takes seconds for what a signal
/// does at once, and a lease must outlast it.
const SLOWER: u64 = 6;

impl Trial {
    /// The first run of a scenario in a mode, with the times and the takeover delay of its plan.
    #[must_use]
    pub fn new(scenario: &'static Scenario, mode: Mode, seed: u64) -> Self {
        Self {
            scenario,
            mode,
            seed,
            repetition: 0,
            quick: false,
            load: None,
            takeover_delay_ms: None,
            library: None,
        }
    }

    /// The name of the run with processes, and of its directory: `L16-R-process-s42-0`.
    #[must_use]
    pub fn name(&self) -> String {
        self.name_on(Driver::Process)
    }

    /// The name of the run with this driver. Another library follows the mode; a takeover delay is the
    /// last part.
    #[must_use]
    pub fn name_on(&self, driver: Driver) -> String {
        let Self { scenario, mode, seed, repetition, library, .. } = self;
        let library = library.map(|library| format!("-{}", library.name)).unwrap_or_default();
        let name = format!("{}-{mode}{library}-{driver}-s{seed}-{repetition}", scenario.id);
        match self.plan(driver).locking.takeover_delay_ms {
            0 => name,
            ms => format!("{name}-d{ms}"),
        }
    }

    /// The plan of the run with this driver.
    #[must_use]
    pub fn plan(&self, driver: Driver) -> Plan {
        let Self { scenario, mode, seed, repetition, quick, load, takeover_delay_ms, .. } = *self;
        let mut plan = scenario.plan_with(load, mode, seed, repetition, quick);
        if driver == Driver::Container {
            plan.slow_down(SLOWER);
        }
        if let Some(ms) = takeover_delay_ms {
            plan.delay_takeovers(ms);
        }
        plan
    }

    /// Carries out the trial with processes of this machine: [`carry_out_on`](Self::carry_out_on).
    ///
    /// # Errors
    /// As for [`carry_out_on`](Self::carry_out_on).
    pub async fn carry_out(
        &self,
        program: &Program,
        dir: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Run, TrialError> {
        self.carry_out_on(Driver::Process, program, dir, interrupted).await
    }

    /// Carries out the trial and writes `history.jsonl`, `attempts.csv` and `run.json` into `dir`,
    /// which must exist. When `interrupted` is ready, the run ends early and is marked as interrupted.
    ///
    /// # Errors
    /// [`TrialError::Missing`] if this machine or the driver cannot carry out the trial; nothing is
    /// written then. Other errors if the scenario does not apply to the mode, or something cannot
    /// be started or written. A schedule that gets stuck is not an error: the run is recorded as
    /// not as expected.
    pub async fn carry_out_on(
        &self,
        driver: Driver,
        program: &Program,
        dir: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Run, TrialError> {
        let plan = self.plan(driver);
        let expected = self.expected(driver, &plan)?;
        let began_wall_ns = timestamp::wall_ns();
        let clock = Clock::system();
        let began = clock.now();
        let history = dir.join("history.jsonl");
        let played = match driver {
            Driver::Sim => self.simulate(&history).await?,
            _ => self.run_on_servers(driver, program, &history, interrupted).await?,
        };
        let (observed, summary) = verdict::judge(&history, played.requests)?;
        let stuck = played.stuck.as_ref().map(ToString::to_string);
        let why = stuck.or_else(|| match self.library {
            None => verdict::surprise(expected, &plan, &observed, &summary, played.interrupted),
            Some(_) => None,
        });
        let lasted_ms = (clock.now().since(began).as_secs_f64() * 1e3).round();
        let judged = Judged { expected, observed, why, began_wall_ns, lasted_ms };
        let run = self.record(driver, &plan, played, judged);
        record::write_attempts(&dir.join("attempts.csv"), attempts(&run, &summary))?;
        let timeouts = timeouts(&plan, self.ready_within());
        let file = RunFile { run: &run, quick: self.quick, plan: &plan, timeouts };
        record::write(&dir.join("run.json"), &file)?;
        Ok(run)
    }

    /// How long the workers may take to be ready.
    fn ready_within(&self) -> Duration {
        self.library.map_or(READY_WITHIN, |_| LIBRARY_READY_WITHIN)
    }

    /// What theory predicts, or why the trial cannot be carried out.
    fn expected(&self, driver: Driver, plan: &Plan) -> Result<Expected, TrialError> {
        let expected = self.scenario.expected(self.mode).ok_or_else(|| {
            TrialError::Plan(format!("{} means nothing in mode {}", self.scenario.id, self.mode))
        })?;
        let of_library = |library: &Library| library.lacks(driver, self.mode, plan);
        let lacks = driver.lacks(self.mode, plan).or_else(|| self.library.and_then(of_library));
        match (lacks, self.library) {
            (Some(why), _) => Err(TrialError::Missing(why)),
            (None, None) => Ok(plan.expected(expected)),
            // Theory speaks of quorumlock alone.
            (None, Some(_)) => Ok(Expected::Any),
        }
    }

    /// The mode as a run has it: with another library it is `MODE:LIBRARY`.
    #[must_use]
    pub fn mode_and_library(&self) -> String {
        match self.library {
            None => self.mode.to_string(),
            Some(library) => format!("{}:{}", self.mode, library.name),
        }
    }

    fn record(&self, driver: Driver, plan: &Plan, played: Outcome, judged: Judged) -> Run {
        Run {
            schema: record::SCHEMA,
            run: self.name_on(driver),
            scenario: self.scenario.id.to_owned(),
            title: self.scenario.title.to_owned(),
            story: self.scenario.story.to_owned(),
            mode: self.mode_and_library(),
            library: self.library.map(|library| library.facts(self.mode, self.scenario.id)),
            driver: driver.to_string(),
            seed: self.seed,
            repetition: self.repetition,
            quorumlock: env!("CARGO_PKG_VERSION").to_owned(),
            commit: environment::commit(),
            diff: environment::diff(),
            lease_ms: plan.locking.lease_ms,
            max_lease_ms: plan.locking.max_lease_ms,
            load: self.load,
            takeover_delay_ms: plan.locking.takeover_delay_ms,
            expected: judged.expected,
            observed: judged.observed,
            as_expected: judged.why.is_none(),
            why: judged.why,
            stuck: played.stuck.as_ref().and_then(TrialError::stuck_at),
            began_wall_ns: judged.began_wall_ns,
            lasted_ms: judged.lasted_ms,
            nodes: played.nodes,
            interrupted: played.interrupted,
        }
    }

    async fn simulate(&self, history: &Path) -> Result<Outcome, TrialError> {
        let (trial, history, run) = (*self, history.to_owned(), self.name_on(Driver::Sim));
        let plan = self.plan(Driver::Sim);
        if let [first, ..] = &plan.wrong()[..] {
            return Err(TrialError::Plan(first.clone()));
        }
        let nodes = vec![
            NodeFacts {
                version: "simulated".to_owned(),
                run_id: String::new(),
                role: "voter".to_owned(),
            };
            plan.servers.voters
        ];
        let performed = blocking(move || {
            let Self { seed, repetition, mode, .. } = trial;
            Ok(SimRun { run: &run, seed, repetition, mode, plan: &plan, bug: None }
                .execute(&history))
        });
        let stuck = match performed.await? {
            Err(stuck @ TrialError::Stuck { .. }) => Some(stuck),
            performed => {
                performed?;
                None
            }
        };
        Ok(Outcome { nodes, requests: None, stuck, interrupted: false })
    }

    async fn run_on_servers(
        &self,
        driver: Driver,
        program: &Program,
        history: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Outcome, TrialError> {
        let plan = self.plan(driver);
        if let [first, ..] = &plan.wrong()[..] {
            return Err(TrialError::Plan(first.clone()));
        }
        let (recorder, sender, live) = Recorder::start(history, &self.name_on(driver), self.seed)?;
        // Declared outside of `run`, because an interrupt ends `run`.
        let nodes = OnceLock::new();
        let mut interrupted = pin!(interrupted);
        let run = async {
            let start = RunnerSetup::start(self, driver, &plan, program, &sender, live, &nodes);
            let mut setup = tokio::select! {
                setup = start => setup?,
                // Dropping the start kills its processes.
                () = &mut interrupted => return Ok((None, None, true)),
            };
            let before = setup.deployment.requests().await;
            let played = tokio::select! {
                played = setup.run_schedule(&plan, &sender) => played,
                () = &mut interrupted => {
                    // What the workers still report is kept, whether or not all of them end well.
                    let _ = setup.end_workers(&sender).await;
                    return Ok((None, None, true));
                }
            };
            setup.end_workers(&sender).await?;
            let after = setup.deployment.requests().await;
            let stuck = match played {
                Err(stuck @ TrialError::Stuck { .. }) => Some(stuck),
                played => {
                    played?;
                    None
                }
            };
            Ok((Some(requests(&before, &after)), stuck, false))
        };
        let played: Result<_, TrialError> = run.await;
        drop(sender);
        recorder.finish().await?;
        let (requests, stuck, interrupted) = played?;
        Ok(Outcome { nodes: nodes.into_inner().unwrap_or_default(), requests, stuck, interrupted })
    }
}

/// The result of a run, apart from its history.
struct Outcome {
    nodes: Vec<NodeFacts>,
    requests: Option<u64>,
    stuck: Option<TrialError>,
    interrupted: bool,
}

/// What a run showed, and what theory says of it.
struct Judged {
    expected: Expected,
    observed: Observed,
    why: Option<String>,
    began_wall_ns: u64,
    lasted_ms: f64,
}

/// The servers, the resource and the workers of a run.
struct RunnerSetup {
    // Declared before the servers: fields are dropped in order, and workers must end before their
    // nodes.
    workers: Vec<Worker>,
    fleets: Vec<Fleet>,
    deployment: Deployment,
    live: watch::Receiver<ClientStates>,
    _resource: Resource,
}

impl RunnerSetup {
    async fn start(
        trial: &Trial,
        driver: Driver,
        plan: &Plan,
        program: &Program,
        sender: &HistorySender,
        live: watch::Receiver<ClientStates>,
        nodes: &OnceLock<Vec<NodeFacts>>,
    ) -> Result<Self, TrialError> {
        let mut deployment = Deployment::start(driver, trial.mode, plan).await?;
        let facts = deployment.facts().await;
        nodes.get_or_init(|| facts);
        let resource = Resource::start(plan.fenced, sender.clone()).await?;
        let (mut workers, mut fleets) = (Vec::new(), Vec::new());
        for client in &plan.clients {
            let config = Config {
                run: trial.name_on(driver),
                seed: trial.seed,
                client: client.id.clone(),
                mode: trial.mode,
                library: trial.library.map(|library| library.command.clone()),
                urls: deployment.urls(client)?,
                locking: Locking {
                    max_lease_ms: client.max_lease_ms.unwrap_or(plan.locking.max_lease_ms),
                    ..plan.locking.clone()
                },
                work: client.work.clone(),
                first_attempt: 0,
                resource: deployment.access(client, plan, resource.address()),
            };
            let program = match client.clock_by_ms {
                0 => program.clone(),
                by_ms => program.with_clock(Shift::ByMs(by_ms))?,
            };
            let sender = sender.clone();
            match client.work.waiting {
                Waiting::Once => {
                    fleets.push(Fleet::new(&program, config, sender, live.clone()).await);
                }
                _ => workers.push(Worker::start(&program, &config, sender).await?),
            }
        }
        let setup = Self { workers, fleets, deployment, live, _resource: resource };
        let all_ready =
            |live: &ClientStates| plan.clients.iter().all(|client| live.of(&client.id).ready);
        let mut states = setup.live.clone();
        let within = trial.ready_within();
        let ready = tokio::time::timeout(within, states.wait_for(all_ready)).await;
        if !matches!(ready, Ok(Ok(_))) {
            let why = format!("not all workers are ready within {within:?}");
            // What another library does at its start must not end the runs of others.
            return Err(match trial.library {
                Some(library) => TrialError::Missing(format!("{}: {why}", library.name)),
                None => std::io::Error::other(why).into(),
            });
        }
        Ok(setup)
    }

    async fn run_schedule(
        &mut self,
        plan: &Plan,
        sender: &HistorySender,
    ) -> Result<(), TrialError> {
        let mut nemesis = Nemesis {
            plan,
            deployment: &self.deployment,
            workers: &mut self.workers,
            fleets: &self.fleets,
            sender: sender.clone(),
            live: self.live.clone(),
        };
        schedule::carry_out(plan, &mut nemesis).await
    }

    /// Ends all workers. Events that they still report are recorded first.
    async fn end_workers(&mut self, sender: &HistorySender) -> Result<(), TrialError> {
        let ends = self.workers.iter_mut().map(|worker| worker.end(sender, &self.live));
        let fleets = self.fleets.iter_mut().map(Fleet::end);
        let (ends, fleets) = tokio::join!(join_all(ends), join_all(fleets));
        for end in ends.into_iter().chain(fleets) {
            end?;
        }
        Ok(())
    }
}

fn timeouts(plan: &Plan, ready_within: Duration) -> Timeouts {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timeouts {
        ready_ms: ms(ready_within),
        step_ms: ms(schedule::patience(plan)),
        end_ms: ms(workers::END_WITHIN),
    }
}

fn requests(before: &[Option<Requests>], after: &[Option<Requests>]) -> u64 {
    let pairs = before.iter().zip(after);
    pairs.filter_map(|(before, after)| Some(after.as_ref()?.since(before.as_ref()))).sum()
}
