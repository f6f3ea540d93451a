use std::sync::Arc;

use quorumlock_protocol::admission::NodeStatusReport;
use quorumlock_protocol::{BoxFuture, Error};

/// What a lessor can do if its nodes must prove their memory: the lessor itself requires only
/// [`Node`](quorumlock_protocol::Node).
pub trait Admission: Send + Sync {
    /// As [`Lessor::run_background`](crate::Lessor::run_background).
    fn run(self: Arc<Self>) -> BoxFuture<()>;
    /// Examines nodes that are not proven, and brings them a step on, if it is time: a process that
    /// ends now does its part.
    fn pass(self: Arc<Self>) -> BoxFuture<()>;
    /// As [`Lessor::admit_nodes`](crate::Lessor::admit_nodes).
    fn admit_nodes(self: Arc<Self>, force: bool) -> BoxFuture<Result<(), Error>>;
    /// As [`Lessor::node_status`](crate::Lessor::node_status).
    fn node_status(self: Arc<Self>) -> BoxFuture<Result<Vec<NodeStatusReport>, Error>>;
}
