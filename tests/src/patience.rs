//! How long tests wait: for events without end in practice, and by polling where there is no event.

use std::io::Write as _;
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant};

/// Longer than anything takes that works at all, even on a loaded machine. Only a failing test
/// waits so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until there is something to see.
///
/// # Panics
/// If there is nothing within [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(watch.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Awaits an event.
///
/// # Panics
/// If it does not come within [`PATIENCE`].
pub async fn within<T>(what: &str, event: impl IntoFuture<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, event.into_future()).await {
        Ok(value) => value,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// Measures time on the clock that leases live on.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Clock,
    since: Instant,
}

impl Stopwatch {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        let clock = Clock::system();
        Self { since: clock.now(), clock }
    }

    /// So much time has passed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.now().since(self.since)
    }
}

/// Says that a test cannot run here. Not with `eprintln!`, which the harness swallows.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", test.name().unwrap_or("a test"));
}
