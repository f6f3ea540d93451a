//! How long tests wait: for events with a very long limit, and by polling where there is no event.

use std::io::Write as _;
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;

/// The longest wait for anything that works at all, even on a loaded machine. Only a failing test
/// waits this long.
pub const MAX_WAIT: Duration = Duration::from_secs(20);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// Polls `look` until it returns a value.
///
/// # Panics
/// If `look` returns no value within [`MAX_WAIT`].
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(watch.elapsed() < MAX_WAIT, "not within {MAX_WAIT:?}: {what}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Awaits an event.
///
/// # Panics
/// If the event does not come within [`MAX_WAIT`].
pub async fn within<T>(what: &str, event: impl IntoFuture<Output = T>) -> T {
    match tokio::time::timeout(MAX_WAIT, event.into_future()).await {
        Ok(value) => value,
        Err(_) => panic!("not within {MAX_WAIT:?}: {what}"),
    }
}

/// Measures time on the lease clock.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Clock,
    since: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        let clock = Clock::system();
        Self { since: clock.now(), clock }
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.now().since(self.since)
    }
}

/// Prints that a test cannot run here. It does not use `eprintln!`, whose output the harness
/// captures.
pub fn missed(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", test.name().unwrap_or("a test"));
}
