use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Collect;

/// Collects the nodes' "may be free now".
///
/// Wakes when `quorum` nodes have said so, or a grace after the first: with one node unreachable or
/// one message lost the count would never be reached (SAFETY.md e4).
#[derive(Debug)]
pub(super) struct Wake {
    quorum: u32,
    /// One bit per node that spoke; nodes beyond 64 share the last one.
    heard: AtomicU64,
    spoken: Notify,
}

/// About one round trip in one data centre.
const GRACE: Duration = Duration::from_millis(1);

impl Wake {
    pub(super) fn new(quorum: usize) -> Self {
        let quorum = u32::try_from(quorum).unwrap_or(u32::MAX);
        Self { quorum, heard: AtomicU64::new(0), spoken: Notify::new() }
    }

    /// Forgets what was heard: call it before an attempt, so that what comes during it is kept.
    pub(super) fn forget(&self) {
        self.heard.store(0, Ordering::SeqCst);
    }

    /// Resolves when it is worth trying again.
    pub(super) async fn woken(&self) {
        loop {
            let spoken = self.spoken.notified();
            tokio::pin!(spoken);
            spoken.as_mut().enable();
            match self.heard.load(Ordering::SeqCst).count_ones() {
                0 => spoken.await,
                count if count >= self.quorum => return,
                _ => {
                    if tokio::time::timeout(GRACE, spoken).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl Collect<()> for Wake {
    fn collect(&self, from: usize, (): ()) {
        self.heard.fetch_or(1 << from.min(63), Ordering::SeqCst);
        self.spoken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn wakes_at_the_quorum_or_a_grace_after_the_first() {
        // SAFETY.md e4.
        let wake = Wake::new(2);
        assert!(wake.woken().now_or_never().is_none());
        wake.collect(3, ());
        assert!(wake.woken().now_or_never().is_none(), "one of two: a grace for the others");
        wake.woken().await;
        wake.collect(0, ());
        assert!(wake.woken().now_or_never().is_some());
        wake.forget();
        assert!(wake.woken().now_or_never().is_none());
    }
}
