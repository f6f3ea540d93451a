use std::sync::Arc;

use quorumlock_protocol::{
    Answer, FencingToken, HeldInterval, Hints, Instant, Lane, LeaseRequest, Node, ReplySink,
    Responder, might_be_granted,
};

use crate::lease_table::LeaseTable;

/// Asks the `lacking` nodes to hold a lease whose window is open. A yes counts as a fresh grant, so
/// only nodes with proven memory may give it (PROTOCOL.md ADM4).
pub(crate) fn top_up<N: Node>(
    nodes: &Arc<[Arc<N>]>,
    lease_table: &LeaseTable,
    lease: &LeaseRequest,
    token: FencingToken,
    lane: Lane,
    lacking: Vec<usize>,
) {
    let (nodes, lease_table, lease) = (nodes.clone(), lease_table.clone(), lease.clone());
    let answers = Arc::new(Answers { nodes, leases: lease_table, lease, lane });
    for node in lacking {
        let to = Responder::new(answers.clone(), node);
        answers.nodes[node].regrant(&answers.lease, token, lane, to);
    }
}

struct Answers<N> {
    nodes: Arc<[Arc<N>]>,
    leases: LeaseTable,
    lease: LeaseRequest,
    lane: Lane,
}

impl<N: Node> ReplySink<Answer<Instant>> for Answers<N> {
    fn collect(&self, node: usize, answer: Answer<Instant>) {
        // The lease may have been released meanwhile. This release uses the connection of the
        // request (H17).
        if !self.leases.record(self.lease.nonce, node, &answer) && might_be_granted(&answer) {
            self.nodes[node].release(
                &self.lease,
                HeldInterval::UNKNOWN,
                self.lane,
                Hints::default(),
                Responder::nobody(),
            );
        }
    }
}
