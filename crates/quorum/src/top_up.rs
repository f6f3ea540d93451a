use std::sync::Arc;

use quorumlock_protocol::{
    Answer, FencingToken, HeldInterval, Hints, Instant, Lane, LeaseRequest, Node, ReplySink,
    Responder, might_be_granted,
};
use quorumlock_watchdog::Clock;

use crate::lease_table::LeaseTable;

/// Asks the `lacking` nodes to hold a lease whose window is open. A yes counts as a fresh grant, so
/// only nodes with proven memory may give it (PROTOCOL.md ADM4).
pub(crate) fn top_up<N: Node>(
    nodes: &Arc<[Arc<N>]>,
    (leases, clock): (&LeaseTable, &Clock),
    lease: &LeaseRequest,
    token: FencingToken,
    lane: Lane,
    lacking: Vec<usize>,
) {
    let (nodes, leases, clock) = (nodes.clone(), leases.clone(), clock.clone());
    let answers = Arc::new(Answers { nodes, leases, clock, lease: lease.clone(), lane });
    for node in lacking {
        let to = Responder::new(answers.clone(), node);
        answers.nodes[node].regrant(&answers.lease, token, lane, to);
    }
}

/// Records a node's answer to a top-up. The lease may have been released meanwhile: then the node releases
/// what it may have granted, on the connection of the request (H17).
pub(crate) fn record<N: Node>(
    nodes: &[Arc<N>],
    (leases, clock): (&LeaseTable, &Clock),
    (lease, lane): (&LeaseRequest, Lane),
    node: usize,
    answer: &Answer<Instant>,
) {
    let counts = leases.record(lease.nonce, node, answer, clock.now());
    if !counts && might_be_granted(answer) {
        let (held, hints) = (HeldInterval::UNKNOWN, Hints::default());
        nodes[node].release(lease, held, lane, hints, Responder::nobody());
    }
}

struct Answers<N> {
    nodes: Arc<[Arc<N>]>,
    leases: LeaseTable,
    clock: Clock,
    lease: LeaseRequest,
    lane: Lane,
}

impl<N: Node> ReplySink<Answer<Instant>> for Answers<N> {
    fn collect(&self, node: usize, answer: Answer<Instant>) {
        let lease = (&self.lease, self.lane);
        record(&self.nodes, (&self.leases, &self.clock), lease, node, &answer);
    }
}
