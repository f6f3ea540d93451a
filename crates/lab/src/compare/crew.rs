//! Tasks that hold locks and keep records of it for the judges.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Locker};
use quorumlock_core::{Clock, Instant};
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use super::pairs::{Failures, RETRY_AFTER};
use crate::judge::{Hold, Wait, Who};

/// A task that takes one lock again and again and holds it for a while.
pub(super) struct Worker {
    pub(super) who: Who,
    pub(super) locker: Locker,
    pub(super) name: Arc<str>,
    pub(super) job: Job,
}

/// How long the work under the lock takes.
pub(super) enum Job {
    Always(Duration),
    /// Drawn anew for each hold.
    Drawn(fn(&mut StdRng) -> Duration, Box<StdRng>),
}

/// What tasks saw.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) holds: Vec<Hold>,
    /// Ended without a grant when time was up.
    pub(super) waits: Vec<Wait>,
    /// Calls of `lock` that gave an error.
    pub(super) failed: Failures,
    /// Holders that were told of loss, before or at the release.
    pub(super) lost: Failures,
    /// Releases that too few nodes confirmed.
    pub(super) unconfirmed: Failures,
}

/// Lets all workers work for so long.
pub(super) async fn work(crew: Vec<Worker>, lasts: Duration) -> Log {
    let clock = Clock::system();
    let until = clock.now() + lasts;
    let mut tasks = JoinSet::new();
    for worker in crew {
        tasks.spawn(worker.work(clock.clone(), until));
    }
    let mut all = Log::default();
    for log in tasks.join_all().await {
        all.add(log);
    }
    all
}

impl Worker {
    async fn work(mut self, clock: Clock, until: Instant) -> Log {
        let mut log = Log::default();
        let left = || Some(until.since(clock.now())).filter(|left| !left.is_zero());
        let mut asked = clock.now();
        while let Some(time) = left() {
            // Dropping the future gives up the place in the queue.
            let guard = match tokio::time::timeout(time, self.locker.lock(&self.name)).await {
                Ok(Ok(guard)) => guard,
                Ok(Err(error)) => {
                    log.failed.note(&error);
                    tokio::time::sleep(RETRY_AFTER).await;
                    continue;
                }
                Err(_) => break,
            };
            let granted = clock.now();
            let job = self.job.next().min(until.since(granted));
            // Cut off by loss; the release then says so.
            let _ = guard.run(tokio::time::sleep(job)).await;
            let released = clock.now();
            log.holds.push(Hold {
                name: self.name.clone(),
                who: self.who,
                asked,
                granted,
                released,
                valid_until: released + guard.valid_for(),
                token: guard.fence().get(),
            });
            match guard.unlock().await {
                Ok(()) => {}
                Err(lost @ Error::Lost(_)) => log.lost.note(&lost),
                Err(error) => log.unconfirmed.note(&error),
            }
            asked = clock.now();
        }
        log.waits.push(Wait { name: self.name, asked, ended: clock.now() });
        log
    }
}

impl Job {
    fn next(&mut self) -> Duration {
        match self {
            Self::Always(time) => *time,
            Self::Drawn(draw, random) => draw(random),
        }
    }
}

impl Log {
    pub(super) fn add(&mut self, other: Self) {
        self.holds.extend(other.holds);
        self.waits.extend(other.waits);
        self.failed.add(other.failed);
        self.lost.add(other.lost);
        self.unconfirmed.add(other.unconfirmed);
    }
}
