//! Which node contenders ask first, and for how long they wait for it. Advice, never safety
//! (SAFETY.md d1, d2).
//!
//! The gates of all names are the same for all clients that have reached the same servers, in whatever order and by
//! whatever addresses they know them (rendezvous hashing).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_core::{Name, Node, fingerprint};

/// Which of the nodes is the gate of a name.
pub(crate) fn gate_of<N: Node>(nodes: &[N], name: &Name) -> Option<usize> {
    (0..nodes.len()).max_by_key(|at| mix(fingerprint(nodes[*at].identity(), name.as_str())))
}

/// Whether a release, the how manieth of this locker, looks for waiters at all nodes: whoever does not reach the gate
/// stands elsewhere (SAFETY.md d6). One in sixteen, of no period, so that those of every name do.
pub(crate) fn looks_everywhere(release: u64) -> bool {
    mix(release).is_multiple_of(16)
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

/// FNV alone leaves the last bytes in the low bits.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SAFETY.md d6.
    #[test]
    fn of_every_name_some_releases_look_everywhere() {
        let share = |step| (0..1_600_u64).filter(|at| looks_everywhere(at * step)).count();
        for names in 1..=64 {
            let share = share(names);
            assert!((50..200).contains(&share), "{share} of 1,600, one name of {names}");
        }
    }

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
