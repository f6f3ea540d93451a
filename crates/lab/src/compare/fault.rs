//! A server is killed while locks are held, and comes back empty.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::Locker;
use quorumlock_core::Clock;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::crew::{Job, Log, Worker, work};
use crate::judge::Who;
use crate::servers::{ControlError, Servers};

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

/// Lets every locker work on every name, and kills `victim` after a third of the time.
pub(super) async fn endure(
    lockers: &[Locker],
    prefix: &str,
    seed: u64,
    lasts: Duration,
    servers: Arc<Servers>,
    victim: usize,
) -> Result<Outcome, ControlError> {
    let crew = crew(lockers, prefix, seed);
    let (log, down) = tokio::join!(work(crew, lasts), async {
        tokio::time::sleep(lasts / 3).await;
        kill_and_restart_empty(servers, victim).await
    });
    Ok(Outcome { log, down: down? })
}

fn crew(lockers: &[Locker], prefix: &str, seed: u64) -> Vec<Worker> {
    let names: Vec<Arc<str>> = (0..NAMES).map(|i| format!("{prefix}/{i}").into()).collect();
    let mut crew = Vec::new();
    for (number, locker) in lockers.iter().enumerate() {
        for name in &names {
            let task = crew.len();
            let random = StdRng::seed_from_u64(seed.wrapping_add(task as u64));
            crew.push(Worker {
                who: Who { locker: number, task },
                locker: locker.clone(),
                name: name.clone(),
                job: Job::Drawn(draw, Box::new(random)),
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

async fn kill_and_restart_empty(
    servers: Arc<Servers>,
    victim: usize,
) -> Result<Duration, ControlError> {
    let clock = Clock::system();
    servers[victim].kill()?;
    let killed = clock.now();
    tokio::time::sleep(DOWN).await;
    // It waits until the server answers: not on a thread that the lockers need.
    let restarted = tokio::task::spawn_blocking(move || servers[victim].restart_empty()).await;
    restarted.map_err(std::io::Error::other)??;
    Ok(clock.now().since(killed))
}
