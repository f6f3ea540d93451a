//! A server is killed while locks are held, and restarts empty.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::Locker;
use quorumlock_watchdog::Clock;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::phase_recorder::PhaseRecorder;
use super::workers::{Job, Log, Worker, work};
use crate::history::{Event, Op, Phase};
use crate::judge::Who;
use crate::runner::recorder::HistorySender;
use crate::scenario::Fault;
use quorumlock_testbed::servers::{ControlError, Servers};

/// A shorter phase has no time to fail and to recover.
pub(super) const MIN_DURATION: Duration = Duration::from_secs(2);

/// The number of contended locks, so that several are held when the server dies.
const NAMES: usize = 8;

/// About as long as a supervisor needs to restart a crashed server.
const DOWNTIME: Duration = Duration::from_millis(300);

/// The result of the fault phase.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) log: Log,
    /// How long the server was dead or not yet ready.
    pub(super) down: Duration,
}

/// The server to kill.
pub(super) struct Victim {
    pub(super) servers: Arc<Servers>,
    /// Its index in `servers`.
    pub(super) place: usize,
    /// Its number among the nodes of its mode.
    pub(super) node: usize,
}

/// Runs the workers, and kills the victim after a third of the time.
pub(super) async fn run(
    workers: Vec<Worker>,
    lasts: Duration,
    victim: Victim,
    sender: Option<HistorySender>,
) -> Result<Outcome, ControlError> {
    let (log, down) = tokio::join!(work(workers, lasts), async {
        tokio::time::sleep(lasts / 3).await;
        victim.dies_and_comes_back_empty(sender).await
    });
    Ok(Outcome { log, down: down? })
}

/// One worker for each locker and name.
pub(super) fn workers(
    lockers: &[Locker],
    prefix: &str,
    seed: u64,
    sender: Option<&HistorySender>,
) -> Vec<Worker> {
    let names: Vec<Arc<str>> = (0..NAMES).map(|i| format!("{prefix}/{i}").into()).collect();
    let mut workers = Vec::new();
    for (number, locker) in lockers.iter().enumerate() {
        let recorder = PhaseRecorder::of(sender, number);
        for name in &names {
            let task = workers.len();
            let random = StdRng::seed_from_u64(seed.wrapping_add(task as u64));
            workers.push(Worker {
                who: Who { locker: number, task },
                locker: locker.clone(),
                name: name.clone(),
                job: Job::Drawn(draw, Box::new(random)),
                recorder: recorder.clone(),
            });
        }
    }
    workers
}

/// Half of the jobs are short; the others last longer than the server's downtime.
fn draw(random: &mut StdRng) -> Duration {
    let range = if random.random_bool(0.5) { 5..20 } else { 300..1_000 };
    Duration::from_millis(random.random_range(range))
}

impl Victim {
    async fn dies_and_comes_back_empty(
        self,
        sender: Option<HistorySender>,
    ) -> Result<Duration, ControlError> {
        let Self { servers, place, node } = self;
        let (kill, restart) = (Fault::Kill(node), Fault::RestartEmpty(node));
        let dead = kill.window().map(|(_, what)| what).unwrap_or_default();
        let tell = async |phase, what: String| {
            if let Some(sender) = &sender {
                let fault = sender.event("nemesis", Op::Fault, phase);
                sender.send(Event { node: Some(node), what: Some(what), ..fault }).await;
            }
        };
        // Recorded before the kill, so that no consequence is recorded earlier than its cause.
        tell(Phase::Invoke, dead.clone()).await;
        servers[place].kill()?;
        let clock = Clock::system();
        let killed = clock.now();
        tokio::time::sleep(DOWNTIME).await;
        tell(Phase::Info, restart.to_string()).await;
        // `restart_empty` blocks until the server answers, so it runs on a thread that the lockers
        // do not need.
        let restarted = tokio::task::spawn_blocking(move || servers[place].restart_empty()).await;
        restarted.map_err(std::io::Error::other)??;
        tell(Phase::Ok, dead).await;
        Ok(clock.now().since(killed))
    }
}
