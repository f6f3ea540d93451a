//! The trait that locks are built on: it grants leases, on one node or on a quorum.

use std::sync::Arc;

use quorumlock_protocol::{
    Acquired, BoxFuture, Claim, Error, FencingToken, HeldInterval, Hints, Holder, Instant, Lane,
    LeaseRequest, ListPosition, ListStep, Name, NodeReport, Nonce, ReleaseOutcome, WaitQueue,
};
use quorumlock_watchdog::Renewal;

use crate::Admission;

/// Grants leases. Everything above it (guards, waiting, watchdog, blocking API) is the same for one
/// node and for a quorum.
///
/// Every future ends within the answer timeout, whatever the nodes do, unless its method says
/// otherwise. The timeout counts from when the requests could be sent: where nodes must be
/// connected, the connect timeout comes first. A renewal of a single node on [`Lane::Watchdog`]
/// ends within four answer timeouts, since a late yes still extends the lease. An acquisition whose
/// future is dropped releases everything that may have been granted.
pub trait Lessor: Send + Sync + 'static {
    /// The number of nodes. [`Lessor::wait_queue`] tells them apart by their index.
    fn nodes(&self) -> usize;
    /// Makes one attempt to acquire the name, with a token or without. The request has a fresh
    /// nonce.
    fn acquire(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>>;
    /// Extends leases; the watchdog gives at most 128 to one call.
    /// Returns one answer per lease request, in order.
    fn renew(&self, leases: Vec<LeaseRequest>, lane: Lane) -> BoxFuture<Vec<Renewal>>;
    /// The nodes that did not carry out the watchdog's last renewal, and why: for messages. None by
    /// default.
    fn renewal_problems(&self) -> Vec<NodeReport> {
        Vec::new()
    }
    /// Takes up a lease that another process held: asks the nodes to renew it, and counts on it if enough
    /// still hold it. `last` is the last token of its block.
    fn resume(&self, lease: LeaseRequest, last: FencingToken) -> BoxFuture<Renewal> {
        let _ = last;
        let renewed = self.renew(vec![lease], Lane::Caller);
        Box::pin(async { renewed.await.pop().unwrap_or(Renewal::Unknown) })
    }
    /// Forgets a lease that moves to another process: from now on no request ends it.
    fn forget(&self, nonce: Nonce, now: Instant) {
        let _ = (nonce, now);
    }
    /// Releases the lease. The requests are queued before this returns; the future only waits for
    /// the answers. If other clients wanted the name lately ([`Hints::contended`]), it also waits a
    /// moment for the answer of the home node, which notifies the next waiter: a caller that asks
    /// again at once would be in that waiter's way.
    ///
    /// The future ends within twice the answer timeout, because a release whose connection breaks
    /// is sent again. `held` is the interval in which the lease is valid.
    fn release(
        &self,
        lease: LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
    ) -> BoxFuture<Result<ReleaseOutcome, Error>>;
    /// One step of a listing of what looks like a lock at one node. Nothing by default.
    fn list(&self, node: usize, at: ListPosition) -> BoxFuture<Result<ListStep, Error>> {
        let _ = (node, at);
        Box::pin(async { Ok(ListStep::default()) })
    }
    /// The current holder of the claim's name; `None` if nobody holds it.
    fn inspect(&self, claim: Claim) -> BoxFuture<Result<Option<Holder>, Error>>;
    /// Frees the claim's name, regardless of its holder; with `of` only if that is the id of its holder. True if
    /// it was held so.
    fn force_release(&self, claim: Claim, of: Option<String>) -> BoxFuture<Result<bool, Error>>;
    /// The home node of `name`. Waiters ask it first, so that only one of them goes on to the other
    /// nodes.
    fn home(&self, name: &Name) -> Option<usize>;
    /// A number for the servers that serve the name. The leases of one call of [`Lessor::renew`] have the
    /// same one, so that servers that hang delay no renewal at others.
    fn shard(&self, name: &Name) -> u64 {
        let _ = name;
        0
    }
    /// Waits until every node has answered all requests posted on `lane`, at most for the answer
    /// timeout (for four of them on [`Lane::Watchdog`] of a single node). On [`Lane::Caller`] that
    /// includes the releases of late grants, and a quorum then brings nodes whose memory is not
    /// proven one step on: two more, if nodes hang.
    fn drain(&self, lane: Lane) -> BoxFuture<()>;
    /// How the nodes prove their memory; `None` if they need not (the default).
    fn admission(&self) -> Option<Arc<dyn Admission>> {
        None
    }
    /// The nodes' queues of waiters; `None` if no node keeps one: then waiters poll. Its messages
    /// come from the nodes' indices.
    fn wait_queue(&self) -> Option<&dyn WaitQueue>;
}
