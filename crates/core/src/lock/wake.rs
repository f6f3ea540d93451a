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
    /// One bit per node that spoke; nodes beyond 64 share the last one.
    heard: AtomicU64,
    /// One bit per node that said that it is our turn there.
    turns: AtomicU64,
    /// One bit per node at which something may have been missed.
    missed: AtomicU64,
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
    /// By other nodes, or it was given back by a program that knows of no queue: somebody else may be on its way
    /// to the gate.
    ByOthers,
}

/// About one round trip in one data centre.
const GRACE: Duration = Duration::from_millis(1);

impl Wake {
    pub(super) fn new(nodes: usize) -> Self {
        let quorum = u32::try_from(quorum_of(nodes)).unwrap_or(u32::MAX);
        Self {
            quorum,
            heard: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            spoken: Notify::new(),
            handed: Mutex::default(),
        }
    }

    /// Forgets who spoke, not what was handed over: call it before an attempt, so that what comes during it is
    /// kept.
    pub(super) fn forget(&self) {
        self.turns.store(0, Ordering::SeqCst);
        self.missed.store(0, Ordering::SeqCst);
        self.heard.store(0, Ordering::SeqCst);
    }

    /// What was handed over since this was last asked.
    pub(super) fn handed(&self) -> Vec<Handed> {
        std::mem::take(&mut *self.unseen())
    }

    /// Resolves when it is worth trying again. `gate` is read at each message: it is another one once more
    /// servers are known by their run ids (SAFETY.md d1).
    pub(super) async fn woken(&self, gate: impl Fn() -> Option<usize>) -> Woken {
        loop {
            let spoken = self.spoken.notified();
            tokio::pin!(spoken);
            spoken.as_mut().enable();
            let heard = self.heard.load(Ordering::SeqCst);
            let at_gate = || gate().map_or(0, bit);
            match heard.count_ones() {
                _ if !self.unseen().is_empty() => return Woken::Turn,
                0 => spoken.await,
                count if heard & at_gate() != 0 || count >= self.quorum => {
                    return self.why(heard, at_gate());
                }
                _ => {
                    if tokio::time::timeout(GRACE, spoken).await.is_err() {
                        return self.why(self.heard.load(Ordering::SeqCst), at_gate());
                    }
                }
            }
        }
    }

    fn why(&self, heard: u64, gate: u64) -> Woken {
        match heard & gate {
            0 => Woken::ByOthers,
            _ if self.turns.load(Ordering::SeqCst) & gate != 0 => Woken::Turn,
            _ if self.missed.load(Ordering::SeqCst) & gate != 0 => Woken::ByGate,
            _ => Woken::ByOthers,
        }
    }

    fn unseen(&self) -> MutexGuard<'_, Vec<Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collect<News> for Wake {
    fn collect(&self, from: usize, news: News) {
        match news {
            News::Handed(handed) => self.unseen().push(handed),
            News::Turn => drop(self.turns.fetch_or(bit(from), Ordering::SeqCst)),
            News::Ask => drop(self.missed.fetch_or(bit(from), Ordering::SeqCst)),
            News::Freed => {}
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

    const GATE: fn() -> Option<usize> = || Some(1);

    #[tokio::test(start_paused = true)]
    async fn wakes_at_the_quorum_or_a_grace_after_the_first() {
        // SAFETY.md e4.
        let wake = Wake::new(3);
        assert!(wake.woken(GATE).now_or_never().is_none());
        wake.collect(2, News::Ask);
        assert!(wake.woken(GATE).now_or_never().is_none(), "one of two: a grace for the others");
        assert_eq!(wake.woken(GATE).await, Woken::ByOthers);
        wake.collect(0, News::Ask);
        assert!(wake.woken(GATE).now_or_never().is_some());
        wake.forget();
        assert!(wake.woken(GATE).now_or_never().is_none());
        wake.collect(1, News::Ask);
        assert_eq!(wake.woken(GATE).now_or_never(), Some(Woken::ByGate), "the gate is enough");
        wake.collect(2, News::Turn);
        assert_eq!(
            wake.woken(GATE).now_or_never(),
            Some(Woken::ByGate),
            "a turn elsewhere is none"
        );
        wake.collect(1, News::Turn);
        assert_eq!(wake.woken(GATE).now_or_never(), Some(Woken::Turn));
        wake.forget();
        wake.collect(1, News::Freed);
        assert_eq!(
            wake.woken(GATE).now_or_never(),
            Some(Woken::ByOthers),
            "whose turn, it did not say"
        );
    }

    /// SAFETY.md d1: before a server has been reached its address stands for it.
    #[tokio::test]
    async fn whose_turn_it_is_follows_the_gate() {
        let wake = Wake::new(3);
        wake.collect(2, News::Turn);
        assert_eq!(wake.woken(|| Some(2)).now_or_never(), Some(Woken::Turn));
    }
}
