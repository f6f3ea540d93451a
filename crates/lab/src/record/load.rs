use serde::{Deserialize, Serialize};

/// The load of a comparison. Only the scenarios of comparisons (C1, C2) follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The number of nodes, in the mode of a quorum.
    pub nodes: usize,
    /// The number of tasks that lock at the same time.
    pub tasks: usize,
    /// The duration of a run, in milliseconds.
    pub ms: u64,
}
