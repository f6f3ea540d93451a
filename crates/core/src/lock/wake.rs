use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::{Collect, quorum_of};

/// Collects the nodes' "may be free now".
///
/// Wakes when the gate has said so, or `quorum` nodes, or a grace after the first: with one node
/// unreachable or one message lost the count would never be reached (SAFETY.md e4).
#[derive(Debug)]
pub(super) struct Wake {
    quorum: u32,
    gate: u64,
    /// One bit per node that spoke; nodes beyond 64 share the last one.
    heard: AtomicU64,
    spoken: Notify,
}

/// About one round trip in one data centre.
const GRACE: Duration = Duration::from_millis(1);

impl Wake {
    pub(super) fn new(nodes: usize, gate: Option<usize>) -> Self {
        let quorum = u32::try_from(quorum_of(nodes)).unwrap_or(u32::MAX);
        let gate = gate.map_or(0, bit);
        Self { quorum, gate, heard: AtomicU64::new(0), spoken: Notify::new() }
    }

    /// Forgets what was heard: call it before an attempt, so that what comes during it is kept.
    pub(super) fn forget(&self) {
        self.heard.store(0, Ordering::SeqCst);
    }

    /// Resolves when it is worth trying again: whether the gate has said so.
    pub(super) async fn woken(&self) -> bool {
        loop {
            let spoken = self.spoken.notified();
            tokio::pin!(spoken);
            spoken.as_mut().enable();
            let heard = self.heard.load(Ordering::SeqCst);
            match heard.count_ones() {
                0 => spoken.await,
                _ if heard & self.gate != 0 => return true,
                count if count >= self.quorum => return false,
                _ => {
                    if tokio::time::timeout(GRACE, spoken).await.is_err() {
                        return self.heard.load(Ordering::SeqCst) & self.gate != 0;
                    }
                }
            }
        }
    }
}

impl Collect<()> for Wake {
    fn collect(&self, from: usize, (): ()) {
        self.heard.fetch_or(bit(from), Ordering::SeqCst);
        self.spoken.notify_waiters();
    }
}

fn bit(node: usize) -> u64 {
    1 << node.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn wakes_at_the_quorum_or_a_grace_after_the_first() {
        // SAFETY.md e4.
        let wake = Wake::new(3, Some(1));
        assert!(wake.woken().now_or_never().is_none());
        wake.collect(2, ());
        assert!(wake.woken().now_or_never().is_none(), "one of two: a grace for the others");
        assert!(!wake.woken().await);
        wake.collect(0, ());
        assert!(wake.woken().now_or_never().is_some());
        wake.forget();
        assert!(wake.woken().now_or_never().is_none());
        wake.collect(1, ());
        assert_eq!(wake.woken().now_or_never(), Some(true), "the gate is enough");
    }
}
