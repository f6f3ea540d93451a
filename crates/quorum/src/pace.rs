//! How long each node usually takes to answer, and which nodes are late. Advice, never safety
//! (PROTOCOL.md W7, MAJ3).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_protocol::waiting::TUNING;

/// The pace of all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Paces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    nodes: Box<[Pace]>,
    /// Calls that may ask more nodes because some are late, times [`CALLS_PER_HEDGE`].
    hedges: AtomicU32,
}

#[derive(Debug)]
struct Pace {
    /// How long it took to answer lately, in microseconds: a moving average.
    usual: AtomicU64,
    /// When it last answered, in microseconds of the lease clock.
    answered: AtomicU64,
    /// Whether it was late, and has not answered since.
    suspect: AtomicBool,
    /// When it was last asked whether it answers.
    probed: Mutex<Instant>,
}

/// One call in so many may ask more nodes because some are late: if all nodes become slow, more requests
/// would make them slower.
const CALLS_PER_HEDGE: u32 = 10;
/// So many calls in a row may: those under way when a node begins to hang.
const MAX_HEDGES: u32 = 128;
/// How often a suspect node is asked whether it answers.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

impl Paces {
    pub(crate) fn new(nodes: usize) -> Self {
        let nodes = (0..nodes).map(|_| Pace::new()).collect();
        Self(Arc::new(Shared { nodes, hedges: AtomicU32::new(MAX_HEDGES * CALLS_PER_HEDGE) }))
    }

    /// How long a client waits for this node before it asks others: three times the usual time, between
    /// [`Tuning::min_home_timeout`](quorumlock_protocol::waiting::Tuning) and `max_home_timeout`.
    pub(crate) fn timeout(&self, node: usize) -> Duration {
        let usual = Duration::from_micros(self.0.nodes[node].usual.load(Ordering::Relaxed));
        (usual * 3).clamp(TUNING.min_home_timeout, TUNING.max_home_timeout)
    }

    /// Notes that the node has answered at `now` what it was asked at `asked`.
    pub(crate) fn answered(&self, node: usize, asked: Instant, now: Instant) {
        let pace = &self.0.nodes[node];
        pace.answered.store(micros(now.since(Instant::NEVER)), Ordering::Relaxed);
        let took = micros(now.since(asked));
        let usual = match pace.usual.load(Ordering::Relaxed) {
            // The first answer is all that is known: a far node is not passed by at first.
            0 => took,
            usual => usual - usual / 8 + took / 8,
        };
        pace.usual.store(usual, Ordering::Relaxed);
        self.clear(node);
    }

    /// Whether the node is late with what it was asked at `asked`: it has answered nothing since, or took
    /// longer than any node may. A node that answers others in the meantime is busy.
    pub(crate) fn is_late(&self, node: usize, asked: Instant, now: Instant) -> bool {
        let answered = self.0.nodes[node].answered.load(Ordering::Relaxed);
        answered < micros(asked.since(Instant::NEVER))
            || now.since(asked) >= TUNING.max_home_timeout
    }

    /// Notes that the node answers.
    pub(crate) fn clear(&self, node: usize) {
        let suspect = &self.0.nodes[node].suspect;
        if suspect.load(Ordering::Relaxed) {
            suspect.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that the node is late.
    pub(crate) fn suspect(&self, node: usize, now: Instant) {
        let pace = &self.0.nodes[node];
        if !pace.suspect.swap(true, Ordering::Relaxed) {
            *pace.probed.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    pub(crate) fn is_suspect(&self, node: usize) -> bool {
        self.0.nodes[node].suspect.load(Ordering::Relaxed)
    }

    /// Whether the suspect node must be asked now whether it answers.
    pub(crate) fn is_probe_due(&self, node: usize, now: Instant) -> bool {
        let mut probed = self.0.nodes[node].probed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = now.since(*probed) >= PROBE_INTERVAL;
        if due {
            *probed = now;
        }
        due
    }

    /// Counts a call that asks a majority first.
    pub(crate) fn count_call(&self) {
        let most = MAX_HEDGES * CALLS_PER_HEDGE;
        if self.0.hedges.load(Ordering::Relaxed) < most {
            self.0.hedges.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether one more call may ask more nodes because some are late.
    pub(crate) fn may_hedge(&self) -> bool {
        let spend = |left: u32| left.checked_sub(CALLS_PER_HEDGE);
        self.0.hedges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

impl Pace {
    fn new() -> Self {
        let (usual, answered, suspect) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { usual, answered, suspect, probed: Mutex::new(Instant::NEVER) }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Instant = Instant::NEVER;

    fn took(paces: &Paces, node: usize, took: Duration) {
        let asked = BEGIN + Duration::from_secs(9);
        paces.answered(node, asked, asked + took);
    }

    #[test]
    fn patience_follows_the_nodes_and_is_bounded() {
        let paces = Paces::new(2);
        assert_eq!(paces.timeout(1), TUNING.min_home_timeout);
        took(&paces, 1, Duration::from_millis(50));
        assert_eq!(paces.timeout(1), Duration::from_millis(150), "the first answer");
        for _ in 0..100 {
            took(&paces, 1, Duration::from_millis(20));
        }
        let patience = paces.timeout(1);
        assert!(patience > Duration::from_millis(50) && patience < Duration::from_millis(61));
        for _ in 0..100 {
            took(&paces, 1, Duration::from_secs(9));
        }
        assert_eq!(paces.timeout(1), TUNING.max_home_timeout);
        assert_eq!(paces.timeout(0), TUNING.min_home_timeout, "each node has its own");
    }

    #[test]
    fn a_late_node_is_suspect_until_it_answers_and_is_asked_once_a_second() {
        let (paces, begin) = (Paces::new(2), Instant::NEVER + Duration::from_secs(9));
        paces.suspect(1, begin);
        assert!(paces.is_suspect(1) && !paces.is_suspect(0));
        let at = |millis| begin + Duration::from_millis(millis);
        paces.suspect(1, at(900));
        let due: Vec<_> = [0, 999, 1000, 1500, 2000].map(|ms| paces.is_probe_due(1, at(ms))).into();
        assert_eq!(due, [false, false, true, false, true]);
        took(&paces, 1, Duration::from_millis(1));
        assert!(!paces.is_suspect(1));
    }

    #[test]
    fn a_node_that_answers_others_is_busy_and_not_late() {
        let (paces, asked) = (Paces::new(1), BEGIN + Duration::from_secs(9));
        let at = |millis| asked + Duration::from_millis(millis);
        paces.answered(0, BEGIN, asked - Duration::from_millis(1));
        assert!(paces.is_late(0, asked, at(4)));
        paces.answered(0, BEGIN, at(2));
        assert!(!paces.is_late(0, asked, at(4)));
        assert!(paces.is_late(0, asked, at(250)), "but not for ever");
    }

    #[test]
    fn one_call_in_ten_asks_more_nodes_when_all_are_late() {
        let paces = Paces::new(1);
        let hedged = |calls| {
            let one = |_: &u32| {
                paces.count_call();
                paces.may_hedge()
            };
            (0..calls).filter(one).count()
        };
        assert_eq!(hedged(100), 100, "a node begins to hang");
        assert!(hedged(1000) < 150);
        assert_eq!(hedged(1000), 100);
        (0..9_000).for_each(|_| paces.count_call());
        assert_eq!(hedged(128), 128);
    }
}
