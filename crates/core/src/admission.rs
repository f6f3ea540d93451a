use std::sync::Arc;

use quorumlock_protocol::admission::NodeStatusReport;
use quorumlock_protocol::{BoxFuture, Error};

/// What a lessor can do if its nodes must prove their memory: the lessor itself requires only
/// [`Node`](quorumlock_protocol::Node).
pub trait Admission: Send + Sync {
    /// Watches nodes that are not proven, and admits them when it is time. The watchdog's runtime drives
    /// it while a locker lives.
    fn run(self: Arc<Self>) -> BoxFuture<()>;
    /// Examines nodes that are not proven, and brings them a step on, if it is time: a process that
    /// ends now does its part.
    fn pass(self: Arc<Self>) -> BoxFuture<()>;
    /// Whether a process that ends waits for nodes that have not greeted it: one of them may have
    /// restarted, and only processes that meet it bring it back.
    fn meets_all(&self) -> bool;
    /// Admits all nodes as they are now, because the operator vouches that none of them has forgotten
    /// a granted lock. `force`: also nodes that belong to another cluster.
    fn admit_nodes(self: Arc<Self>, force: bool) -> BoxFuture<Result<(), Error>>;
    /// Which nodes may vote now, in the order in which the nodes were given.
    fn node_status(self: Arc<Self>) -> BoxFuture<Result<Vec<NodeStatusReport>, Error>>;
}
