//! Which node contenders ask first, and for how long they wait for it. Advice, never safety
//! (SAFETY.md d1, d2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_core::{Name, Node};

/// The gates of all names: the same for all clients that give the nodes the same addresses, in whatever
/// order (rendezvous hashing).
#[derive(Debug)]
pub(crate) struct Gates(Box<[u64]>);

impl Gates {
    pub(crate) fn new<N: Node>(nodes: &[N]) -> Self {
        Self(nodes.iter().map(|node| fold(SEED, node.label())).collect())
    }

    pub(crate) fn of(&self, name: &Name) -> Option<usize> {
        (0..self.0.len()).max_by_key(|at| mix(fold(self.0[*at], name.as_str())))
    }
}

/// How long gates took to answer lately, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<AtomicU64>);

impl Pace {
    /// How long a gate may take: three times as long as usual.
    pub(crate) fn patience(&self) -> Duration {
        let usual = Duration::from_micros(self.0.load(Ordering::Relaxed));
        (usual * 3).clamp(SHORTEST, LONGEST)
    }

    /// A gate took so long to answer.
    pub(crate) fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usual = self.0.load(Ordering::Relaxed);
        self.0.store(usual - usual / 8 + took / 8, Ordering::Relaxed);
    }
}

const SHORTEST: Duration = Duration::from_millis(3);
const LONGEST: Duration = Duration::from_millis(250);

/// FNV-1a, so that programs of any version agree.
fn fold(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV alone leaves the last bytes in the low bits.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_nodes_and_is_bounded() {
        let pace = Pace::default();
        assert_eq!(pace.patience(), SHORTEST);
        for _ in 0..100 {
            pace.note(Duration::from_millis(20));
        }
        let patience = pace.patience();
        assert!(patience > Duration::from_millis(50) && patience < Duration::from_millis(61));
        for _ in 0..100 {
            pace.note(Duration::from_secs(9));
        }
        assert_eq!(pace.patience(), LONGEST);
    }
}
