//! Requests about admission that several parts make: with a time limit, with a fresh id, and the
//! marks of several nodes as one.

use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::Entropy;
use quorumlock_protocol::admission::{AdmissionRpc, Marks, NodeInfo};
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
        let late = || NodeReport::new("a node", NodeProblem::NoAnswer(self.answer_timeout));
        tokio::time::timeout(self.answer_timeout, answer).await.unwrap_or_else(|_| Err(late()))
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

    /// Slot by slot the largest mark of the helpers, for `node` (MARK1). Fails if fewer than
    /// `needed` of them answer.
    pub(crate) async fn marks<N: AdmissionRpc>(
        &self,
        nodes: &[&N],
        (helpers, needed): (&[usize], usize),
        node: usize,
    ) -> Result<Marks, NodeReport> {
        let (mut marks, mut heard) = (Marks::new(), 0);
        for helper in helpers {
            let shown = self.in_time(nodes[*helper].barrier(&self.fresh()?)).await;
            let Ok(shown) = shown else { continue };
            heard += 1;
            for (slot, mark) in shown {
                let largest = marks.entry(slot).or_default();
                *largest = mark.max(*largest);
            }
        }
        if heard < needed {
            let what = NodeProblem::NotAsked("too few helpers to copy marks from".into());
            return Err(NodeReport::new(nodes[node].label(), what));
        }
        Ok(marks)
    }
}
