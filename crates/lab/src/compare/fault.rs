//! A server is killed while locks are held, and comes back empty.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::Locker;
use quorumlock_core::Clock;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::crew::{Job, Log, Worker, work};
use super::voice::Voice;
use crate::history::{Event, Op, Phase};
use crate::judge::Who;
use crate::scenario::Fault;
use crate::servers::{ControlError, Servers};
use crate::trial::recorder::Scribe;

/// Shorter than this there is no time to fail and to recover.
pub(super) const LEAST: Duration = Duration::from_secs(2);

/// Locks that are wanted all the time, so that several are held when the server dies.
const NAMES: usize = 8;

/// A supervisor that starts a crashed server again needs about as long.
const DOWN: Duration = Duration::from_millis(300);

/// What happened.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) log: Log,
    /// For how long the server was dead, or not yet ready.
    pub(super) down: Duration,
}

/// The server that is killed.
pub(super) struct Victim {
    pub(super) servers: Arc<Servers>,
    /// Its place among these.
    pub(super) place: usize,
    /// Its number among those of its mode.
    pub(super) node: usize,
}

/// Lets the crew work, and kills the victim after a third of the time.
pub(super) async fn endure(
    crew: Vec<Worker>,
    lasts: Duration,
    victim: Victim,
    scribe: Option<Scribe>,
) -> Result<Outcome, ControlError> {
    let (log, down) = tokio::join!(work(crew, lasts), async {
        tokio::time::sleep(lasts / 3).await;
        victim.dies_and_comes_back_empty(scribe).await
    });
    Ok(Outcome { log, down: down? })
}

/// Every locker works on every name.
pub(super) fn crew(
    lockers: &[Locker],
    prefix: &str,
    seed: u64,
    scribe: Option<&Scribe>,
) -> Vec<Worker> {
    let names: Vec<Arc<str>> = (0..NAMES).map(|i| format!("{prefix}/{i}").into()).collect();
    let mut crew = Vec::new();
    for (number, locker) in lockers.iter().enumerate() {
        let voice = Voice::of(scribe, number);
        for name in &names {
            let task = crew.len();
            let random = StdRng::seed_from_u64(seed.wrapping_add(task as u64));
            crew.push(Worker {
                who: Who { locker: number, task },
                locker: locker.clone(),
                name: name.clone(),
                job: Job::Drawn(draw, Box::new(random)),
                voice: voice.clone(),
            });
        }
    }
    crew
}

/// Short jobs, and long ones that outlast the server.
fn draw(random: &mut StdRng) -> Duration {
    let range = if random.random_bool(0.5) { 5..20 } else { 300..1_000 };
    Duration::from_millis(random.random_range(range))
}

impl Victim {
    async fn dies_and_comes_back_empty(
        self,
        scribe: Option<Scribe>,
    ) -> Result<Duration, ControlError> {
        let Self { servers, place, node } = self;
        let (kill, restart) = (Fault::Kill(node), Fault::RestartEmpty(node));
        let dead = kill.window().map(|(_, what)| what).unwrap_or_default();
        let tell = async |phase, what: String| {
            if let Some(scribe) = &scribe {
                let fault = scribe.event("nemesis", Op::Fault, phase);
                scribe.tell(Event { node: Some(node), what: Some(what), ..fault }).await;
            }
        };
        // Before it, so that nothing that comes of it seems to come before it.
        tell(Phase::Invoke, dead.clone()).await;
        servers[place].kill()?;
        let clock = Clock::system();
        let killed = clock.now();
        tokio::time::sleep(DOWN).await;
        tell(Phase::Info, restart.to_string()).await;
        // It waits until the server answers: not on a thread that the lockers need.
        let restarted = tokio::task::spawn_blocking(move || servers[place].restart_empty()).await;
        restarted.map_err(std::io::Error::other)??;
        tell(Phase::Ok, dead).await;
        Ok(clock.now().since(killed))
    }
}
