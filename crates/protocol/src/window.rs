use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::Instant;

/// How many of `n` nodes are a majority: `n / 2 + 1`, and 1 of 1.
pub const fn quorum_of(n: usize) -> usize {
    n / 2 + 1
}

/// The instant until which a node surely holds a lease of `ttl` that was requested at `asked`.
///
/// `asked` is the instant **before the command entered our own queue**, never that of the reply.
/// `max_clock_drift` bounds how much faster the node's clock may run than ours (SAFETY.md A1, H8).
/// Another 2 ms are for the granularity of Redis's expiry (redis.io, "Distributed Locks": clock
/// drift).
pub fn expiry(asked: Instant, ttl: Duration, max_clock_drift: f64) -> Instant {
    const GRANULARITY: Duration = Duration::from_millis(2);
    asked + ttl.mul_f64((1.0 - max_clock_drift).clamp(0.0, 1.0)) - GRANULARITY
}

/// For each node, the instant until which it surely holds our nonce; [`Instant::NEVER`] if nothing
/// is known. The lease is valid until the q-th largest of these instants: one formula for
/// acquisition, partial renewal, repair and a single node (PROTOCOL.md WIN1, WIN2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Up to five instants are stored without an allocation, which covers most deployments.
    held_until: SmallVec<[Instant; 5]>,
}

impl Window {
    /// A window over `nodes` nodes of which nothing is known.
    pub fn shut(nodes: usize) -> Self {
        Self { held_until: smallvec![Instant::NEVER; nodes] }
    }

    /// The node answered yes: it holds our nonce at least until `until`. Never shortens the window.
    pub fn record_held(&mut self, node: usize, until: Instant) {
        let at = &mut self.held_until[node];
        *at = until.max(*at);
    }

    /// The node answered a definite no (missing, or held by another nonce): it counts for nothing
    /// from now on.
    pub fn record_lost(&mut self, node: usize) {
        self.held_until[node] = Instant::NEVER;
    }

    /// The node's clock was set forward: it holds our nonce for that much less time.
    pub fn move_back(&mut self, node: usize, by: Duration) {
        let at = &mut self.held_until[node];
        *at = *at - by;
    }

    /// Until when the node surely holds our nonce; [`Instant::NEVER`] if nothing is known.
    pub fn held_until(&self, node: usize) -> Instant {
        self.held_until[node]
    }

    /// Whether the node answered yes, and gave no definite no since.
    pub fn is_held_by(&self, node: usize) -> bool {
        self.held_until[node] > Instant::NEVER
    }

    /// The nodes that do not surely hold our nonce at `now`.
    pub fn lacking(&self, now: Instant) -> impl Iterator<Item = usize> {
        self.held_until.iter().enumerate().filter(move |(_, until)| **until <= now).map(|(n, _)| n)
    }

    /// Until when the lease is valid: the q-th largest per-node instant.
    pub fn until(&self) -> Instant {
        let mut sorted = self.held_until.clone();
        let q = quorum_of(sorted.len());
        *sorted.select_nth_unstable_by(q - 1, |a, b| b.cmp(a)).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::Clock;

    fn at(secs: u64) -> Instant {
        Instant::NEVER + Duration::from_secs(secs)
    }

    #[test]
    fn validity_is_the_qth_largest() {
        let mut w = Window::shut(5);
        assert_eq!(w.until(), Instant::NEVER);
        for (node, secs) in [(0, 9), (1, 7)] {
            w.record_held(node, at(secs));
        }
        assert_eq!(w.until(), Instant::NEVER, "two of five are no majority");
        w.record_held(4, at(5));
        assert_eq!(w.until(), at(5));
        w.record_held(3, at(8));
        assert_eq!(w.until(), at(7));
        w.record_lost(0);
        assert_eq!(w.until(), at(5), "a definite no drops the vote at once");
    }

    #[test]
    fn one_node_is_a_quorum_of_one() {
        let mut w = Window::shut(1);
        w.record_held(0, at(3));
        assert_eq!(w.until(), at(3));
        w.record_held(0, at(2));
        assert_eq!(w.until(), at(3), "a late older answer never shortens");
    }

    #[test]
    fn expiry_counts_from_the_ask_and_subtracts_drift() {
        // SAFETY.md A1, H8.
        let asked = Clock::manual().now();
        let until = expiry(asked, Duration::from_secs(10), 0.01);
        assert_eq!(until.since(asked), Duration::from_millis(9_898));
        assert!(expiry(asked, Duration::from_millis(1), 0.01) < asked, "too short to be valid");
    }
}
