use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Locker};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::crew::{Job, Log, Worker, work};
use super::fault::{self, Outcome, Victim};
use super::pairs::{Pairs, alone, pair, parallel};
use super::plan::{Mode, Phase, Slice};
use super::voice::Voice;
use super::{CompareError, Plan};
use crate::judge::Who;
use crate::record::NodeFacts;
use crate::servers::{Server, Servers, ask, field};
use crate::trial::recorder::Scribe;

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

    /// Of what has a place on disk, `scribe` is told all that happens.
    pub(super) async fn measure(
        &mut self,
        slice: Slice,
        scribe: Option<Scribe>,
    ) -> Result<(), CompareError> {
        let (name, tasks, lasts) = (self.name(), self.plan.tasks, slice.lasts);
        match slice.phase {
            Phase::Alone => self.raw.alone.add(alone(&self.lockers[0], &name, lasts).await),
            Phase::Parallel => {
                self.raw.parallel.add(parallel(&self.lockers[0], &name, tasks, lasts).await);
            }
            Phase::Contended => {
                let crew = self.crew(&name, scribe.as_ref());
                self.raw.crew = crew.iter().map(|worker| worker.who).collect();
                self.raw.contended.add(work(crew, lasts).await);
            }
            Phase::Fault => {
                let (place, seed) = (self.victim(), self.plan.seed);
                let crew = fault::crew(&self.lockers, &name, seed, scribe.as_ref());
                let node = place - self.range().start;
                let victim = Victim { servers: self.servers.clone(), place, node };
                self.raw.fault = Some(fault::endure(crew, lasts, victim, scribe).await?);
            }
        }
        Ok(())
    }

    /// Whether this can be measured here: servers given by URL are not ours to kill.
    pub(super) fn can(&self, phase: Phase) -> bool {
        phase != Phase::Fault || self.servers[self.victim()].pid().is_some()
    }

    /// Its servers, as they are now.
    pub(super) async fn nodes(&self) -> Vec<NodeFacts> {
        let (servers, range) = (self.servers.clone(), self.range());
        // They are asked one after the other, each within a moment.
        let asked = tokio::task::spawn_blocking(move || {
            range.map(|place| facts(&servers[place])).collect()
        });
        asked.await.unwrap_or_default()
    }

    pub(super) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// All tasks, dealt out to the lockers, want the same name.
    fn crew(&self, name: &str, scribe: Option<&Scribe>) -> Vec<Worker> {
        let name: Arc<str> = name.into();
        let voices = (0..self.lockers.len()).map(|locker| Voice::of(scribe, locker));
        let voices = voices.collect::<Vec<_>>();
        let worker = |task| {
            let locker = task % self.lockers.len();
            Worker {
                who: Who { locker, task },
                locker: self.lockers[locker].clone(),
                name: name.clone(),
                job: Job::Always(CRITICAL_SECTION),
                voice: voices[locker].clone(),
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

    /// The places of its servers.
    fn range(&self) -> Range<usize> {
        match self.mode {
            Mode::Single => 0..1,
            Mode::Quorum => 1..self.servers.len(),
        }
    }

    /// The only server, or one of several.
    fn victim(&self) -> usize {
        match self.mode {
            Mode::Single => 0,
            Mode::Quorum => StdRng::seed_from_u64(self.plan.seed).random_range(self.range()),
        }
    }
}

/// A server that does not say is known by nothing.
fn facts(server: &Server) -> NodeFacts {
    let words = ["INFO", "server"].map(str::to_owned);
    let info = server.addr().and_then(|address| ask(address, &words).ok()).unwrap_or_default();
    NodeFacts {
        version: server.version().map(ToString::to_string).unwrap_or_default(),
        run_id: field(&info, "run_id").unwrap_or_default().to_owned(),
        role: "voter".to_owned(),
    }
}
