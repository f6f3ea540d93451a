use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Whether the gate said that it is our turn.
    turn: AtomicBool,
    spoken: Notify,
    /// What was handed over and not looked at yet.
    handed: Mutex<Vec<Handed>>,
}

/// Why it is worth trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// By the gate, and of all who stand there it is our turn; or the name was handed over to us.
    Turn,
    /// By the gate: something may have been missed there.
    ByGate,
    /// By other nodes: somebody else may be on its way to the gate.
    ByOthers,
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
            turn: AtomicBool::new(false),
            spoken: Notify::new(),
            handed: Mutex::default(),
        }
    }

    /// Forgets who spoke, not what was handed over: call it before an attempt, so that what comes during it is
    /// kept.
    pub(super) fn forget(&self) {
        self.turn.store(false, Ordering::SeqCst);
        self.heard.store(0, Ordering::SeqCst);
    }

    /// What was handed over since this was last asked.
    pub(super) fn handed(&self) -> Vec<Handed> {
        std::mem::take(&mut *self.unseen())
    }

    /// Resolves when it is worth trying again.
    pub(super) async fn woken(&self) -> Woken {
        loop {
            let spoken = self.spoken.notified();
            tokio::pin!(spoken);
            spoken.as_mut().enable();
            let heard = self.heard.load(Ordering::SeqCst);
            match heard.count_ones() {
                _ if !self.unseen().is_empty() => return Woken::Turn,
                0 => spoken.await,
                count if heard & self.gate != 0 || count >= self.quorum => return self.why(heard),
                _ => {
                    if tokio::time::timeout(GRACE, spoken).await.is_err() {
                        return self.why(self.heard.load(Ordering::SeqCst));
                    }
                }
            }
        }
    }

    fn why(&self, heard: u64) -> Woken {
        match heard & self.gate {
            0 => Woken::ByOthers,
            _ if self.turn.load(Ordering::SeqCst) => Woken::Turn,
            _ => Woken::ByGate,
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
        if news == News::Turn && bit(from) == self.gate {
            self.turn.store(true, Ordering::SeqCst);
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
        assert_eq!(wake.woken().await, Woken::ByOthers);
        wake.collect(0, News::Ask);
        assert!(wake.woken().now_or_never().is_some());
        wake.forget();
        assert!(wake.woken().now_or_never().is_none());
        wake.collect(1, News::Ask);
        assert_eq!(wake.woken().now_or_never(), Some(Woken::ByGate), "the gate is enough");
        wake.collect(2, News::Turn);
        assert_eq!(wake.woken().now_or_never(), Some(Woken::ByGate), "a turn elsewhere is none");
        wake.collect(1, News::Turn);
        assert_eq!(wake.woken().now_or_never(), Some(Woken::Turn));
    }
}
