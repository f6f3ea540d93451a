use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Locker};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::crew::{Job, Log, Worker, work};
use super::fault::{self, Outcome};
use super::pairs::{Pairs, alone, pair, parallel};
use super::plan::{Mode, Phase, Slice};
use super::{CompareError, Plan};
use crate::judge::Who;
use crate::servers::Servers;

/// One of the two modes: its servers, its lockers, and what was recorded.
pub(super) struct Side {
    plan: Plan,
    mode: Mode,
    /// Those of both modes; the first is that of the single mode.
    servers: Arc<Servers>,
    /// Each stands for a process: they share no connection and no memory.
    lockers: Vec<Locker>,
    /// How many names were used up.
    names: usize,
    raw: Raw,
}

/// What was recorded.
#[derive(Default)]
pub(super) struct Raw {
    pub(super) alone: Pairs,
    pub(super) parallel: Pairs,
    pub(super) contended: Log,
    /// Who took part in that.
    pub(super) crew: Vec<Who>,
    pub(super) fault: Option<Outcome>,
}

/// Several, so that locks go from process to process; not many, so that each has many tasks.
const LOCKERS: usize = 4;

/// Before anything is measured: connections are dialled and caches are warm.
const WARM_UP: usize = 50;

/// About what a short write to a database takes. A timer rounds it up; how long the lock was really
/// held is measured.
const CRITICAL_SECTION: Duration = Duration::from_millis(1);

impl Side {
    /// Makes the lockers, and takes the first locks with each of them.
    pub(super) async fn new(plan: Plan, mode: Mode, servers: Arc<Servers>) -> Result<Self, Error> {
        let urls = servers.urls();
        let locker = || match mode {
            Mode::Single => Locker::single(&urls[0]),
            Mode::Quorum => Locker::quorum(&urls[1..]),
        };
        let lockers = (0..LOCKERS).map(|_| locker()).collect::<Result<Vec<_>, _>>()?;
        if mode == Mode::Quorum {
            // Started a moment ago, and by nobody else: nothing can have been forgotten.
            lockers[0].provision().await?;
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

    pub(super) async fn measure(&mut self, slice: Slice) -> Result<(), CompareError> {
        let (name, tasks, lasts) = (self.name(), self.plan.tasks, slice.lasts);
        match slice.phase {
            Phase::Alone => self.raw.alone.add(alone(&self.lockers[0], &name, lasts).await),
            Phase::Parallel => {
                self.raw.parallel.add(parallel(&self.lockers[0], &name, tasks, lasts).await);
            }
            Phase::Contended => {
                let crew = self.crew(&name);
                self.raw.crew = crew.iter().map(|worker| worker.who).collect();
                self.raw.contended.add(work(crew, lasts).await);
            }
            Phase::Fault => {
                let victim = self.victim();
                if self.servers[victim].pid().is_some() {
                    let (lockers, servers) = (&self.lockers, self.servers.clone());
                    let seed = self.plan.seed;
                    let outcome =
                        fault::endure(lockers, &name, seed, lasts, servers, victim).await?;
                    self.raw.fault = Some(outcome);
                }
            }
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// All tasks, dealt out to the lockers, want the same name.
    fn crew(&self, name: &str) -> Vec<Worker> {
        let name: Arc<str> = name.into();
        let worker = |task| {
            let locker = task % self.lockers.len();
            Worker {
                who: Who { locker, task },
                locker: self.lockers[locker].clone(),
                name: name.clone(),
                job: Job::Always(CRITICAL_SECTION),
            }
        };
        (0..self.plan.tasks).map(worker).collect()
    }

    /// A name of which no server knows anything, and no leftover of the slice before.
    fn name(&mut self) -> String {
        self.names += 1;
        // Servers given by URL may remember another run.
        format!("quorumlock-compare/{:016x}/{}", rand::random::<u64>(), self.names)
    }

    /// The only server, or one of several.
    fn victim(&self) -> usize {
        match self.mode {
            Mode::Single => 0,
            Mode::Quorum => {
                StdRng::seed_from_u64(self.plan.seed).random_range(1..self.servers.len())
            }
        }
    }
}
