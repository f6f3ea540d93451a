//! Carries out a scenario in a mode: real servers, lockers as processes of their own, faults by a
//! schedule, everything recorded, then judged from what is on disk.
//!
//! Nothing is left behind: servers and workers end with the trial, however that ends.

mod crew;
mod driver;
pub mod environment;
mod error;
mod ground;
mod nemesis;
pub(crate) mod recorder;
pub(crate) mod resource;
pub(crate) mod verdict;

use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use quorumlock_core::Clock;
use tokio::sync::watch;

pub use self::crew::Program;
use self::crew::Worker;
pub use self::driver::{Driver, NoDriver};
pub use self::error::TrialError;
#[cfg(feature = "sim")]
use self::ground::blocking;
use self::ground::{Ground, Requests};
use self::nemesis::Nemesis;
use self::recorder::{Live, Recorder, Scribe};
use self::resource::Resource;
use crate::mode::Mode;
use crate::record::{self, NodeFacts, Run};
use crate::scenario::{Locking, Plan, Scenario};
#[cfg(feature = "sim")]
use crate::sim::stage::Play;
use crate::stamp;
use crate::worker::{Config, Order};

/// One scenario in one mode, once.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// What happens.
    pub scenario: &'static Scenario,
    /// How locks are kept.
    pub mode: Mode,
    /// Decides every number that is drawn.
    pub seed: u64,
    /// Which run of this scenario, mode and seed, from zero.
    pub repetition: u64,
    /// Shorter.
    pub quick: bool,
}

/// A worker starts in a few milliseconds, on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A container engine takes seconds for what a signal does at once: a lease is to outlast it.
const SLOWER: u64 = 6;

impl Trial {
    /// Its name with processes, which is that of its directory: `L16-R-process-s42-0`.
    #[must_use]
    pub fn name(&self) -> String {
        self.name_on(Driver::Process)
    }

    /// Its name with this driver.
    #[must_use]
    pub fn name_on(&self, driver: Driver) -> String {
        let Self { scenario, mode, seed, repetition, .. } = self;
        format!("{}-{mode}-{driver}-s{seed}-{repetition}", scenario.id)
    }

    /// What happens in it with this driver.
    #[must_use]
    pub fn plan(&self, driver: Driver) -> Plan {
        let mut plan = self.scenario.plan(self.mode, self.seed, self.repetition, self.quick);
        if driver == Driver::Container {
            plan.locking.lease_ms *= SLOWER;
            plan.locking.max_lease_ms *= SLOWER;
        }
        plan
    }

    /// [`carry_out_on`](Self::carry_out_on) processes of this machine.
    ///
    /// # Errors
    /// As there.
    pub async fn carry_out(
        &self,
        program: &Program,
        dir: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Run, TrialError> {
        self.carry_out_on(Driver::Process, program, dir, interrupted).await
    }

    /// Carries it out and writes `history.jsonl` and `run.json` into `dir`, which must exist. Ends
    /// early, and says so, when `interrupted` is ready.
    ///
    /// # Errors
    /// [`TrialError::Missing`] if this machine or the driver cannot do it: nothing is written then.
    /// If the scenario means nothing in this mode, or something could not be started or written. A
    /// schedule that got stuck is no error, but a run that is not as expected.
    pub async fn carry_out_on(
        &self,
        driver: Driver,
        program: &Program,
        dir: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Run, TrialError> {
        let expected = self.scenario.expected(self.mode).ok_or_else(|| {
            TrialError::Plan(format!("{} means nothing in mode {}", self.scenario.id, self.mode))
        })?;
        if let Some(why) = driver.lacks(self.mode, &self.plan(driver)) {
            return Err(TrialError::Missing(why));
        }
        let began_wall_ns = stamp::wall_ns();
        let clock = Clock::system();
        let began = clock.now();
        let history = dir.join("history.jsonl");
        let played = match driver {
            Driver::Sim => self.simulate(&history).await?,
            _ => self.play(driver, program, &history, interrupted).await?,
        };
        let (observed, account) = verdict::judge(&history, played.requests)?;
        let stuck = played.stuck.as_ref();
        let why = stuck
            .map(ToString::to_string)
            .or_else(|| verdict::disagrees(expected, &observed, &account, played.interrupted))
            .or_else(|| verdict::too_long(self.plan(driver).vacant_at_most_ms, &observed));
        let run = Run {
            schema: record::SCHEMA,
            run: self.name_on(driver),
            scenario: self.scenario.id.to_owned(),
            title: self.scenario.title.to_owned(),
            story: self.scenario.story.to_owned(),
            mode: self.mode.to_string(),
            driver: driver.to_string(),
            seed: self.seed,
            repetition: self.repetition,
            expected,
            observed,
            as_expected: why.is_none(),
            why,
            stuck: stuck.and_then(TrialError::stuck_at),
            began_wall_ns,
            lasted_ms: (clock.now().since(began).as_secs_f64() * 1e3).round(),
            nodes: played.nodes,
            interrupted: played.interrupted,
        };
        record::write(&dir.join("run.json"), &run)?;
        Ok(run)
    }

    #[cfg(feature = "sim")]
    async fn simulate(&self, history: &Path) -> Result<Played, TrialError> {
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
            Ok(Play { run: &run, seed, repetition, mode, plan: &plan, bug: None }.perform(&history))
        });
        let stuck = match performed.await? {
            Err(stuck @ TrialError::Stuck { .. }) => Some(stuck),
            performed => {
                performed?;
                None
            }
        };
        Ok(Played { nodes, requests: None, stuck, interrupted: false })
    }

    #[cfg(not(feature = "sim"))]
    async fn simulate(&self, _: &Path) -> Result<Played, TrialError> {
        Err(TrialError::Missing("this program was built without the simulation".to_owned()))
    }

    async fn play(
        &self,
        driver: Driver,
        program: &Program,
        history: &Path,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Played, TrialError> {
        let plan = self.plan(driver);
        if let [first, ..] = &plan.wrong()[..] {
            return Err(TrialError::Plan(first.clone()));
        }
        let (recorder, scribe, live) = Recorder::start(history, &self.name_on(driver), self.seed)?;
        // Outlives the stage, which an interrupt ends.
        let nodes = OnceLock::new();
        let stage = async {
            let mut stage = Stage::set(self, driver, &plan, program, &scribe, live, &nodes).await?;
            let before = stage.ground.requests().await;
            let played = stage.play(&plan, &scribe).await;
            stage.clear(&scribe).await?;
            let after = stage.ground.requests().await;
            let stuck = match played {
                Err(stuck @ TrialError::Stuck { .. }) => Some(stuck),
                played => {
                    played?;
                    None
                }
            };
            Ok((Some(requests(&before, &after)), stuck))
        };
        let played: Result<_, TrialError> = tokio::select! {
            played = stage => played.map(|(requests, stuck)| (requests, stuck, false)),
            // Dropping the stage ends its processes.
            () = interrupted => Ok((None, None, true)),
        };
        drop(scribe);
        recorder.finish().await?;
        let (requests, stuck, interrupted) = played?;
        Ok(Played { nodes: nodes.into_inner().unwrap_or_default(), requests, stuck, interrupted })
    }
}

/// How a run went, apart from its history.
struct Played {
    nodes: Vec<NodeFacts>,
    requests: Option<u64>,
    stuck: Option<TrialError>,
    interrupted: bool,
}

/// Servers, resource and workers, ready to go.
struct Stage {
    // Before the servers: who holds a lock ends before the nodes do.
    crew: Vec<Worker>,
    ground: Ground,
    live: watch::Receiver<Live>,
    _resource: Resource,
}

impl Stage {
    async fn set(
        trial: &Trial,
        driver: Driver,
        plan: &Plan,
        program: &Program,
        scribe: &Scribe,
        live: watch::Receiver<Live>,
        nodes: &OnceLock<Vec<NodeFacts>>,
    ) -> Result<Self, TrialError> {
        let mut ground = Ground::start(driver, trial.mode, plan).await?;
        let facts = ground.facts().await;
        nodes.get_or_init(|| facts);
        let resource = Resource::start(plan.fenced, scribe.clone()).await?;
        let mut crew = Vec::new();
        for client in &plan.clients {
            let config = Config {
                run: trial.name_on(driver),
                seed: trial.seed,
                client: client.id.clone(),
                mode: trial.mode,
                urls: ground.urls(client)?,
                locking: Locking {
                    max_lease_ms: client.max_lease_ms.unwrap_or(plan.locking.max_lease_ms),
                    ..plan.locking.clone()
                },
                work: client.work.clone(),
                resource: ground.access(client, plan, resource.address()),
            };
            crew.push(Worker::start(program, &config, scribe.clone()).await?);
        }
        let stage = Self { crew, ground, live, _resource: resource };
        let all_ready = |live: &Live| plan.clients.iter().all(|client| live.of(&client.id).ready);
        let mut heard = stage.live.clone();
        let ready = tokio::time::timeout(READY_WITHIN, heard.wait_for(all_ready)).await;
        if !matches!(ready, Ok(Ok(_))) {
            let why = format!("not all workers are ready within {READY_WITHIN:?}");
            return Err(std::io::Error::other(why).into());
        }
        Ok(stage)
    }

    async fn play(&mut self, plan: &Plan, scribe: &Scribe) -> Result<(), TrialError> {
        let clock = Clock::system();
        for (worker, client) in self.crew.iter_mut().zip(&plan.clients) {
            if client.starts {
                worker.order(Order::Start).await?;
            }
        }
        let began = clock.now();
        Nemesis {
            plan,
            ground: &self.ground,
            crew: &mut self.crew,
            scribe: scribe.clone(),
            live: self.live.clone(),
            began,
        }
        .work()
        .await?;
        let over = clock.now().since(began);
        let least = Duration::from_millis(plan.least_ms).saturating_sub(over);
        tokio::time::sleep(least.max(Duration::from_millis(plan.tail_ms))).await;
        Ok(())
    }

    /// Ends all workers; what they still have to tell is told afterwards.
    async fn clear(&mut self, scribe: &Scribe) -> Result<(), TrialError> {
        let ends = self.crew.iter_mut().map(|worker| worker.end(scribe, &self.live));
        for end in futures::future::join_all(ends).await {
            end?;
        }
        Ok(())
    }
}

fn requests(before: &[Option<Requests>], after: &[Option<Requests>]) -> u64 {
    let pairs = before.iter().zip(after);
    pairs.filter_map(|(before, after)| Some(after.as_ref()?.since(before.as_ref()))).sum()
}
