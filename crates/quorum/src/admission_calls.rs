//! Requests about admission that several parts make: with a time limit, with a fresh id, and the
//! marks of several nodes as one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::Entropy;
use quorumlock_protocol::admission::{AdmissionRpc, COPY_TIMES, Marks, NodeInfo};
use quorumlock_protocol::{NodeProblem, NodeReport};

/// How requests about admission are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionCalls<'a> {
    /// Fresh ids and incarnations.
    pub(crate) entropy: &'a Entropy,
    /// How long an answer is awaited.
    pub(crate) answer_timeout: Duration,
}

impl AdmissionCalls<'_> {
    /// The answer, if it comes in time.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, NodeReport>>,
    ) -> Result<T, NodeReport> {
        answer_within(self.answer_timeout, answer).await
    }

    /// The answer to a request that reads or writes the marks of all slots, if it comes in time.
    pub(crate) async fn copied_in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, NodeReport>>,
    ) -> Result<T, NodeReport> {
        answer_within(self.answer_timeout * COPY_TIMES, answer).await
    }

    /// What each node shows, or why it does not answer.
    pub(crate) async fn examine<N: AdmissionRpc>(
        &self,
        nodes: &[&N],
    ) -> Vec<Result<NodeInfo, NodeReport>> {
        let within = self.answer_timeout;
        join_all(nodes.iter().map(|node| async move {
            let late = |_| Err(NodeReport::new(node.label(), NodeProblem::NoAnswer(within)));
            tokio::time::timeout(within, node.node_info()).await.unwrap_or_else(late)
        }))
        .await
    }

    /// A fresh id or incarnation, as text.
    pub(crate) fn fresh(&self) -> Result<String, NodeReport> {
        let nonce = self.entropy.nonce();
        nonce
            .map(|nonce| nonce.to_string())
            .map_err(|e| NodeReport::new("this process", NodeProblem::NotAsked(e.to_string())))
    }

    /// The marks of each of these nodes that answers. Ends every round in progress there (MARK1).
    pub(crate) async fn barriers<N: AdmissionRpc>(
        &self,
        nodes: &[&N],
        helpers: &BTreeSet<usize>,
    ) -> BTreeMap<usize, Marks> {
        let barrier = async |helper: &usize| {
            let marks = self.copied_in_time(nodes[*helper].barrier(&self.fresh()?)).await?;
            Ok::<_, NodeReport>((*helper, marks))
        };
        join_all(helpers.iter().map(barrier)).await.into_iter().flatten().collect()
    }
}

async fn answer_within<T>(
    within: Duration,
    answer: impl Future<Output = Result<T, NodeReport>>,
) -> Result<T, NodeReport> {
    let late = |_| Err(NodeReport::new("a node", NodeProblem::NoAnswer(within)));
    tokio::time::timeout(within, answer).await.unwrap_or_else(late)
}

/// Slot by slot the largest mark of the helpers (MARK1); `None` if fewer than `needed` are there.
pub(crate) fn largest_marks(
    shown: &BTreeMap<usize, Marks>,
    helpers: &[usize],
    needed: usize,
) -> Option<Marks> {
    let (mut largest, mut heard) = (Marks::new(), 0);
    for marks in helpers.iter().filter_map(|helper| shown.get(helper)) {
        heard += 1;
        for (slot, mark) in marks {
            let known = largest.entry(*slot).or_default();
            *known = (*mark).max(*known);
        }
    }
    (heard >= needed).then_some(largest)
}
