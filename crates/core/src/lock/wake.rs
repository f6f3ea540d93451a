use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::{Collect, Handed, News, quorum_of};

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
    /// What was handed over and not looked at yet.
    handed: Mutex<Vec<Handed>>,
}

/// About one round trip in one data centre.
const GRACE: Duration = Duration::from_millis(1);

impl Wake {
    pub(super) fn new(nodes: usize, gate: Option<usize>) -> Self {
        let quorum = u32::try_from(quorum_of(nodes)).unwrap_or(u32::MAX);
        let gate = gate.map_or(0, bit);
        Self {
            quorum,
            gate,
            heard: AtomicU64::new(0),
            spoken: Notify::new(),
            handed: Mutex::default(),
        }
    }

    /// Forgets who spoke, not what was handed over: call it before an attempt, so that what comes during it is
    /// kept.
    pub(super) fn forget(&self) {
        self.heard.store(0, Ordering::SeqCst);
    }

    /// What was handed over since this was last asked.
    pub(super) fn handed(&self) -> Vec<Handed> {
        std::mem::take(&mut *self.unseen())
    }

    /// Resolves when it is worth trying again: whether the gate has said so.
    pub(super) async fn woken(&self) -> bool {
        loop {
            let spoken = self.spoken.notified();
            tokio::pin!(spoken);
            spoken.as_mut().enable();
            let heard = self.heard.load(Ordering::SeqCst);
            match heard.count_ones() {
                _ if !self.unseen().is_empty() => return true,
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

    fn unseen(&self) -> MutexGuard<'_, Vec<Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collect<News> for Wake {
    fn collect(&self, from: usize, news: News) {
        if let News::Handed(handed) = news {
            self.unseen().push(handed);
        }
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
        wake.collect(2, News::Ask);
        assert!(wake.woken().now_or_never().is_none(), "one of two: a grace for the others");
        assert!(!wake.woken().await);
        wake.collect(0, News::Ask);
        assert!(wake.woken().now_or_never().is_some());
        wake.forget();
        assert!(wake.woken().now_or_never().is_none());
        wake.collect(1, News::Ask);
        assert_eq!(wake.woken().now_or_never(), Some(true), "the gate is enough");
    }
}
