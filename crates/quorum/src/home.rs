//! The home node of a name, which contenders ask first, and how long they wait for its answer.
//! Advice, never safety (PROTOCOL.md W7, W8).
//!
//! The home node of a name is the same for all clients that have reached the same servers, whatever
//! the order and the addresses in their lists (rendezvous hashing).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_protocol::waiting::TUNING;
use quorumlock_protocol::{Name, Node, fnv1a};

/// The index of the home node of a name.
pub(crate) fn home_of<N: Node>(nodes: &[Arc<N>], name: &Name) -> Option<usize> {
    (0..nodes.len()).max_by_key(|at| mix(fnv1a(nodes[*at].identity(), name.as_str())))
}

/// How long home nodes took to answer lately, in microseconds: a moving average.
#[derive(Clone, Debug, Default)]
pub(crate) struct HomeLatency(Arc<AtomicU64>);

impl HomeLatency {
    /// How long a client waits for a home node: three times the usual time, between
    /// [`Tuning::min_home_timeout`](quorumlock_protocol::waiting::Tuning) and `max_home_timeout`.
    pub(crate) fn timeout(&self) -> Duration {
        let usual = Duration::from_micros(self.0.load(Ordering::Relaxed));
        (usual * 3).clamp(TUNING.min_home_timeout, TUNING.max_home_timeout)
    }

    /// Records how long a home node took to answer.
    pub(crate) fn record(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usual = match self.0.load(Ordering::Relaxed) {
            // The first answer is all that is known: a far node is not passed by at first.
            0 => took,
            usual => usual - usual / 8 + took / 8,
        };
        self.0.store(usual, Ordering::Relaxed);
    }
}

/// Spreads the last bytes of a name over all bits: FNV alone leaves them in the low bits.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_nodes_and_is_bounded() {
        let pace = HomeLatency::default();
        assert_eq!(pace.timeout(), TUNING.min_home_timeout);
        pace.record(Duration::from_millis(50));
        assert_eq!(pace.timeout(), Duration::from_millis(150), "the first answer");
        for _ in 0..100 {
            pace.record(Duration::from_millis(20));
        }
        let patience = pace.timeout();
        assert!(patience > Duration::from_millis(50) && patience < Duration::from_millis(61));
        for _ in 0..100 {
            pace.record(Duration::from_secs(9));
        }
        assert_eq!(pace.timeout(), TUNING.max_home_timeout);
    }
}
