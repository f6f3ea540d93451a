//! One renewal of a batch of leases on N nodes.

use std::sync::Arc;

use quorumlock_protocol::answers::{is_settled, of_two_parts};
use quorumlock_protocol::{
    Answer, FencingToken, Instant, Lane, LeaseRequest, Node, Parts, Responder, quorum_of,
};
use quorumlock_watchdog::Clock;

use crate::lease_table::LeaseTable;
use crate::top_up;

/// What one renewal asks of the nodes.
pub(crate) struct BatchRenewal {
    leases: Vec<LeaseRequest>,
    lane: Lane,
    /// Until when each lease was valid.
    before: Vec<Option<Instant>>,
    /// For each node and lease, the token with which the node is asked to hold a lease that it lacks, in
    /// place of its renewal (PROTOCOL.md ADM4).
    top_ups: Vec<Vec<Option<FencingToken>>>,
}

type Answers = Vec<Answer<Instant>>;

impl BatchRenewal {
    /// A renewal of `leases` on the connections of `lane`. `tops_up`: nodes prove their memory.
    pub(crate) fn new(
        leases: Vec<LeaseRequest>,
        lane: Lane,
        nodes: usize,
        (table, now): (&LeaseTable, Instant),
        tops_up: bool,
    ) -> Self {
        let before = leases.iter().map(|lease| table.until(lease.nonce)).collect();
        let mut top_ups = vec![Vec::new(); nodes];
        for (i, lease) in leases.iter().enumerate().filter(|_| tops_up) {
            let Some((token, lacking)) = table.top_up(lease.nonce, now) else { continue };
            for node in lacking {
                top_ups[node].resize(leases.len(), None);
                top_ups[node][i] = Some(token);
            }
        }
        Self { leases, lane, before, top_ups }
    }

    /// The leases.
    pub(crate) fn leases(&self) -> &[LeaseRequest] {
        &self.leases
    }

    /// Asks one node. There is one answer for each lease, in order.
    pub(crate) fn post<N: Node>(&self, node: usize, of: &N, to: Responder<Answers>) {
        let top_ups = &self.top_ups[node];
        if top_ups.is_empty() {
            return of.renew(&self.leases, self.lane, to);
        }
        let second: Vec<_> = top_ups.iter().map(Option::is_some).collect();
        let leases = self.leases.iter().zip(top_ups);
        let renewed = leases.clone().filter(|(_, token)| token.is_none());
        let renewed: Vec<_> = renewed.map(|(lease, _)| lease.clone()).collect();
        let lacking: Vec<_> =
            leases.filter_map(|(lease, token)| Some((lease, (*token)?))).collect();
        let parts = Parts::new(2, move |parts| of_two_parts(&second, parts), to);
        let first = Responder::new(parts.clone(), 0);
        match renewed.is_empty() {
            true => first.send(Vec::new()),
            false => of.renew(&renewed, self.lane, first),
        }
        let granted = Parts::new(lacking.len(), |answers| answers, Responder::new(parts, 1));
        for (i, (lease, token)) in lacking.into_iter().enumerate() {
            of.regrant(lease, token, self.lane, Responder::new(granted.clone(), i));
        }
    }

    /// Records the answers of one node.
    pub(crate) fn record<N: Node>(
        &self,
        nodes: &[Arc<N>],
        (table, clock): (&LeaseTable, &Clock),
        node: usize,
        answers: &Answers,
    ) {
        for (i, (lease, answer)) in self.leases.iter().zip(answers).enumerate() {
            if self.tops_up(node, i) {
                top_up::record(nodes, (table, clock), (lease, self.lane), node, answer);
            } else {
                table.record(lease.nonce, node, answer, clock.now());
            }
        }
    }

    /// Whether the result of each lease is known. One lost lease does not make the others wait for a hung
    /// node: a window that a definite no has shortened is known at once. If nodes have forgotten the lease,
    /// nodes that lack it may still make up for them: the forgetful ones vote for nobody meanwhile
    /// (PROTOCOL.md MAJ4). Nothing makes up for a node that remembers and denies.
    pub(crate) fn is_settled(&self, answers: &[Option<Answers>], table: &LeaseTable) -> bool {
        let quorum = quorum_of(answers.len());
        self.leases.iter().zip(&self.before).enumerate().all(|(i, (lease, before))| {
            let open = |(node, said): (usize, &Option<_>)| said.is_none() && self.tops_up(node, i);
            is_settled(answers, i, quorum)
                || has_shrunk(table, lease, *before)
                    && (table.is_taken(lease.nonce) || !answers.iter().enumerate().any(open))
        })
    }

    fn tops_up(&self, node: usize, lease: usize) -> bool {
        matches!(self.top_ups[node].get(lease), Some(Some(_)))
    }
}

/// Whether the window of a lease ends earlier than before, or there is none.
fn has_shrunk(table: &LeaseTable, lease: &LeaseRequest, before: Option<Instant>) -> bool {
    before.is_none_or(|before| table.until(lease.nonce).is_none_or(|now| now < before))
}
