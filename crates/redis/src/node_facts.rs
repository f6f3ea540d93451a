use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::sync::Notify;

/// What the drivers of a node's connections have found out about it, for those who ask no server.
#[derive(Debug)]
pub(super) struct NodeFacts {
    identity: AtomicU64,
    identified: Notify,
    /// `i64::MIN` until the node has told its time.
    wall_offset: AtomicI64,
}

impl NodeFacts {
    pub(super) fn new(identity: u64) -> Self {
        let (identity, wall_offset) = (AtomicU64::new(identity), AtomicI64::new(i64::MIN));
        Self { identity, identified: Notify::new(), wall_offset }
    }

    /// See [`Node::identity`](quorumlock_protocol::Node::identity).
    pub(super) fn identity(&self) -> u64 {
        self.identity.load(Ordering::Relaxed)
    }

    /// Records the identity of the server at the other end of a new connection.
    pub(super) fn identify(&self, identity: u64) {
        if self.identity.swap(identity, Ordering::Relaxed) != identity {
            self.identified.notify_one();
        }
    }

    /// Waits until the identity changes.
    pub(super) async fn identified(&self) {
        self.identified.notified().await;
    }

    /// How many microseconds the node's wall clock is ahead of ours, if it has told its time.
    pub(super) fn wall_offset(&self) -> Option<i64> {
        let offset = self.wall_offset.load(Ordering::Relaxed);
        (offset != i64::MIN).then_some(offset)
    }

    /// Compares our wall clock with the node's, which showed `shown` microseconds just now.
    pub(super) fn compare_clocks(&self, shown: i64, wall_micros: u64) {
        let offset = shown.saturating_sub_unsigned(wall_micros);
        self.wall_offset.store(offset, Ordering::Relaxed);
    }
}
