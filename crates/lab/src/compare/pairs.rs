//! Uncontended locks: how long a lock and its release take.

use std::time::Duration;

use quorumlock::{Error, Locker};
use quorumlock_watchdog::Clock;
use tokio::task::JoinSet;

/// The pause after an error, so that a dead server is not asked in a busy loop.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The times of pairs: a lock and its release.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) took: Vec<Duration>,
    pub(super) failed: Failures,
    /// How long was measured.
    pub(super) measured: Duration,
}

/// The number of errors, and the first error's text.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) count: usize,
    pub(super) first: Option<String>,
}

/// Measures one task on one name.
pub(super) async fn alone(locker: &Locker, name: &str, lasts: Duration) -> Pairs {
    let clock = Clock::system();
    let started = clock.now();
    let mut pairs = Pairs::default();
    loop {
        let asked = clock.now();
        pairs.measured = asked.since(started);
        if pairs.measured >= lasts {
            return pairs;
        }
        match pair(locker, name).await {
            Ok(()) => pairs.took.push(clock.now().since(asked)),
            Err(error) => {
                pairs.failed.record(&error);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Measures many tasks, each on its own name.
pub(super) async fn parallel(locker: &Locker, name: &str, tasks: usize, lasts: Duration) -> Pairs {
    let clock = Clock::system();
    let started = clock.now();
    let mut workers = JoinSet::new();
    for task in 0..tasks {
        let (locker, name) = (locker.clone(), format!("{name}/{task}"));
        workers.spawn(async move { alone(&locker, &name, lasts).await });
    }
    let mut all = Pairs::default();
    for pairs in workers.join_all().await {
        all.add(pairs);
    }
    all.measured = clock.now().since(started);
    all
}

/// Locks and unlocks once.
pub(super) async fn pair(locker: &Locker, name: &str) -> Result<(), Error> {
    locker.lock(name).await?.unlock().await
}

impl Pairs {
    /// Adds the result of a later measurement.
    pub(super) fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.failed.add(other.failed);
        self.measured += other.measured;
    }
}

impl Failures {
    pub(super) fn record(&mut self, error: &Error) {
        self.count += 1;
        self.first.get_or_insert_with(|| error.to_string());
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }
}
