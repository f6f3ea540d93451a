//! The steps in which a node lists the locks that it keeps.

use crate::Claim;

/// Where a listing goes on. The default is its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListPosition {
    /// Which of the node's servers is asked: a Redis Cluster has several.
    pub server: usize,
    /// The cursor of that server.
    pub cursor: u64,
}

/// What one step of a listing found.
#[derive(Clone, Debug, Default)]
pub struct ListStep {
    /// What looks like a lock. A lock may come twice, and its holder may have released it meanwhile.
    pub found: Vec<Claim>,
    /// `None`: the node has listed all.
    pub next: Option<ListPosition>,
}
