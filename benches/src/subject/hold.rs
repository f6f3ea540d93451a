//! What all subjects do: they hold a lock while they work.

use std::time::Duration;

use anyhow::Result;
use quorumlock_protocol::Instant;

use crate::testbed::now;

/// A subject that can hold a lock.
pub trait Hold: Clone + Send + Sync + 'static {
    /// Waits for the lock, does the work and releases the lock.
    ///
    /// # Errors
    /// The subject's error.
    fn hold(&self, name: &str, work: Work) -> impl Future<Output = Result<Held>> + Send;

    /// A handle for another task. It has its own instance of everything that the crate does not
    /// share between tasks.
    #[must_use]
    fn for_task(&self) -> Self {
        self.clone()
    }
}

/// The work under a lock: none, or a sleep of this length.
#[derive(Debug, Clone, Copy)]
pub struct Work(pub Option<Duration>);

/// The interval for which a lock was held.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// When the holder learned of the grant.
    pub granted: Instant,
    /// When the holder had done its work.
    pub released: Instant,
}

/// The lease that all subjects ask for.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// The longest pause after a refusal, for subjects that poll.
pub(super) const RETRY: Duration = Duration::from_millis(2);

impl Work {
    /// Does the work, and returns when it began and ended.
    pub async fn run(self) -> Held {
        let granted = now();
        match self.0 {
            None => Held { granted, released: granted },
            Some(time) => {
                tokio::time::sleep(time).await;
                Held { granted, released: now() }
            }
        }
    }
}
