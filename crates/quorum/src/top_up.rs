use std::sync::Arc;

use quorumlock_core::{
    Answer, Collect, Fence, Held, Instant, Lane, Node, ReplyTo, Term, might_be_granted,
};

use crate::roll::Roll;

/// Asks `lacking` nodes to hold a lease whose window is open. It counts as a fresh grant, so only
/// where memories are proven (SAFETY.md, Admission).
pub(crate) fn top_up<N: Node>(
    nodes: &Arc<[N]>,
    roll: &Roll,
    term: &Term,
    fence: Fence,
    lane: Lane,
    lacking: Vec<usize>,
) {
    let (nodes, roll, term) = (nodes.clone(), roll.clone(), term.clone());
    let answers = Arc::new(Answers { nodes, roll, term, lane });
    for node in lacking {
        let to = ReplyTo::new(answers.clone(), node);
        answers.nodes[node].recreate(&answers.term, fence, lane, to);
    }
}

struct Answers<N> {
    nodes: Arc<[N]>,
    roll: Roll,
    term: Term,
    lane: Lane,
}

impl<N: Node> Collect<Answer<Instant>> for Answers<N> {
    fn collect(&self, node: usize, answer: Answer<Instant>) {
        // The lease may have been given back meanwhile; on the same connection, as ever (H17).
        if !self.roll.note(self.term.nonce, node, &answer) && might_be_granted(&answer) {
            self.nodes[node].release(&self.term, Held::UNKNOWN, self.lane, None, ReplyTo::nobody());
        }
    }
}
