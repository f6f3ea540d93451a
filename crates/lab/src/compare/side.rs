use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Locker};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::fault::{self, Outcome, Victim};
use super::pairs::{Pairs, alone, pair, parallel};
use super::phase_recorder::PhaseRecorder;
use super::plan::{Mode, Phase, PhaseSpan};
use super::workers::{Job, Log, Worker, work};
use super::{CompareError, Plan};
use crate::judge::Who;
use crate::record::NodeFacts;
use crate::runner::recorder::HistorySender;
use quorumlock_testbed::servers::{Server, Servers, ask, field};

/// One of the two modes: its servers, its lockers, and its results.
pub(super) struct Side {
    plan: Plan,
    mode: Mode,
    /// The servers of both modes. The first one is the single mode's.
    servers: Arc<Servers>,
    /// Each counts as a process: they share no connection and no memory.
    lockers: Vec<Locker>,
    /// The number of names used so far.
    names: usize,
    raw: Raw,
}

/// The raw results of one mode.
#[derive(Default)]
pub(super) struct Raw {
    pub(super) alone: Pairs,
    pub(super) parallel: Pairs,
    pub(super) contended: Log,
    /// The tasks of the contended phase.
    pub(super) tasks: Vec<Who>,
    pub(super) fault: Option<Outcome>,
}

/// Several lockers, so that locks pass between processes; few, so that each has many tasks.
const LOCKERS: usize = 4;

/// The number of pairs before the measurement, so that connections exist and caches are warm.
const WARM_UP: usize = 50;

/// All clocks are those of one machine.
const CLOCK_BOUND: Duration = Duration::from_millis(100);

/// About the duration of a short write to a database. A timer rounds it up; the actual duration is
/// measured.
const CRITICAL_SECTION: Duration = Duration::from_millis(1);

impl Side {
    /// Makes the lockers, and takes the first locks with each of them.
    pub(super) async fn new(plan: Plan, mode: Mode, servers: Arc<Servers>) -> Result<Self, Error> {
        let urls = servers.urls();
        let locker = || match mode {
            Mode::Single => Locker::single(&urls[0]),
            Mode::Quorum => Locker::builder().clock_bound(CLOCK_BOUND).quorum(&urls[1..]),
        };
        let lockers = (0..LOCKERS).map(|_| locker()).collect::<Result<Vec<_>, _>>()?;
        if mode == Mode::Quorum {
            // The servers have just been started for this comparison, so none can have lost data.
            lockers[0].admit_nodes().await?;
        }
        let mut side = Self { plan, mode, servers, lockers, names: 0, raw: Raw::default() };
        let name = side.name();
        for locker in &side.lockers {
            for _ in 0..WARM_UP {
                pair(locker, &name).await?;
            }
        }
        Ok(side)
    }

    /// Measures one slice. `sender` gets the events, if the phase is recorded.
    pub(super) async fn measure(
        &mut self,
        slice: PhaseSpan,
        sender: Option<HistorySender>,
    ) -> Result<(), CompareError> {
        let (name, tasks, lasts) = (self.name(), self.plan.tasks, slice.lasts);
        match slice.phase {
            Phase::Alone => self.raw.alone.add(alone(&self.lockers[0], &name, lasts).await),
            Phase::Parallel => {
                self.raw.parallel.add(parallel(&self.lockers[0], &name, tasks, lasts).await);
            }
            Phase::Contended => {
                let workers = self.workers(&name, sender.as_ref());
                self.raw.tasks = workers.iter().map(|worker| worker.who).collect();
                self.raw.contended.add(work(workers, lasts).await);
            }
            Phase::Fault => {
                let (place, seed) = (self.victim(), self.plan.seed);
                let workers = fault::workers(&self.lockers, &name, seed, sender.as_ref());
                let node = place - self.range().start;
                let victim = Victim { servers: self.servers.clone(), place, node };
                self.raw.fault = Some(fault::run(workers, lasts, victim, sender).await?);
            }
        }
        Ok(())
    }

    /// Whether this phase can be measured. Servers given by URL must not be killed.
    pub(super) fn can(&self, phase: Phase) -> bool {
        phase != Phase::Fault || self.servers[self.victim()].pid().is_some()
    }

    /// The current facts of its servers.
    pub(super) async fn nodes(&self) -> Vec<NodeFacts> {
        let (servers, range) = (self.servers.clone(), self.range());
        // Blocking requests, one server after the other; each answers within a moment.
        let asked = tokio::task::spawn_blocking(move || {
            range.map(|place| facts(&servers[place])).collect()
        });
        asked.await.unwrap_or_default()
    }

    pub(super) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// All tasks, distributed over the lockers, contend for the same name.
    fn workers(&self, name: &str, sender: Option<&HistorySender>) -> Vec<Worker> {
        let name: Arc<str> = name.into();
        let recorders = (0..self.lockers.len()).map(|locker| PhaseRecorder::of(sender, locker));
        let recorders = recorders.collect::<Vec<_>>();
        let worker = |task| {
            let locker = task % self.lockers.len();
            Worker {
                who: Who { locker, task },
                locker: self.lockers[locker].clone(),
                name: name.clone(),
                job: Job::Always(CRITICAL_SECTION),
                recorder: recorders[locker].clone(),
            }
        };
        (0..self.plan.tasks).map(worker).collect()
    }

    /// A new name, so that nothing is left on the servers from an earlier slice.
    fn name(&mut self) -> String {
        self.names += 1;
        // Servers given by URL may have data of an earlier run.
        format!("quorumlock-compare/{:016x}/{}", rand::random::<u64>(), self.names)
    }

    /// The indices of this mode's servers.
    fn range(&self) -> Range<usize> {
        match self.mode {
            Mode::Single => 0..1,
            Mode::Quorum => 1..self.servers.len(),
        }
    }

    /// The index of the server to kill: the only one, or one of the quorum.
    fn victim(&self) -> usize {
        match self.mode {
            Mode::Single => 0,
            Mode::Quorum => StdRng::seed_from_u64(self.plan.seed).random_range(self.range()),
        }
    }
}

/// The facts of a server. If it does not answer, its run id and version are empty.
fn facts(server: &Server) -> NodeFacts {
    let words = ["INFO", "server"].map(str::to_owned);
    let info = server.addr().and_then(|address| ask(address, &words).ok()).unwrap_or_default();
    NodeFacts {
        version: server.version().map(ToString::to_string).unwrap_or_default(),
        run_id: field(&info, "run_id").unwrap_or_default().to_owned(),
        role: "voter".to_owned(),
    }
}
