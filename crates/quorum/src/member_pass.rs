//! One look at the nodes of a cluster, by any process: no process has to live for the longest lease
//! (docs/PROTOCOL.md MEM3 to MEM5).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use quorumlock_protocol::admission::members::MemberAction;
use quorumlock_protocol::admission::{
    AdmissionRpc, AdmitRequest, ClusterConfig, Marks, NodeInfo, NoteRequest, next_actions,
};
use quorumlock_protocol::{NodeProblem, NodeReport};

use crate::admission_calls::{AdmissionCalls, largest_marks};

/// Examines all nodes of a list, and does what the rules say.
pub(crate) struct MemberPass<'a, N> {
    /// All nodes of the list.
    pub(crate) nodes: &'a [&'a N],
    pub(crate) cluster: &'a ClusterConfig,
    /// How old a mature note is: [`ClusterConfig::note_age`].
    pub(crate) age: Duration,
    pub(crate) calls: AdmissionCalls<'a>,
}

impl<N: AdmissionRpc> MemberPass<'_, N> {
    /// Acts once, by what the nodes show.
    pub(crate) async fn run(&self) {
        let examined = self.calls.examine(self.nodes).await;
        let infos: Vec<_> = examined.into_iter().map(Result::ok).collect();
        let actions = next_actions(self.cluster, &infos, self.age);
        let first =
            |action: &MemberAction| matches!(action, MemberAction::Admit { first: true, .. });
        if actions.iter().any(first)
            && let Err(report) = self.no_other_database().await
        {
            tracing::warn!(%report, "the cluster is not founded");
            return;
        }
        // All nodes that are repaired now had lost their memory before this read, so one barrier of
        // each helper serves them all.
        let helpers = actions.iter().flat_map(|action| match action {
            MemberAction::Admit { helpers, .. } => &helpers[..],
            _ => &[],
        });
        let marks = self.calls.barriers(self.nodes, &helpers.copied().collect()).await;
        join_all(actions.iter().map(async |action| match self.act(action, &infos, &marks).await {
            Ok(true) => tracing::info!(?action, "admission: done"),
            Ok(false) => tracing::debug!(
                ?action,
                "admission: not done: another client came first, or the clocks differ"
            ),
            Err(report) => tracing::debug!(?action, %report, "admission: not done"),
        }))
        .await;
    }

    /// Fails if another database of a node has a cluster: a wrong number in a URL would make a second
    /// set of locks (PROTOCOL.md MEM5).
    async fn no_other_database(&self) -> Result<(), NodeReport> {
        let checked = async |node: &&N| match self.calls.in_time(node.other_databases()).await?[..]
        {
            [] => Ok(()),
            [database, ..] => {
                Err(NodeReport::new(node.label(), NodeProblem::OtherDatabase(database)))
            }
        };
        join_all(self.nodes.iter().map(checked)).await.into_iter().collect()
    }

    async fn act(
        &self,
        action: &MemberAction,
        infos: &[Option<NodeInfo>],
        marks: &BTreeMap<usize, Marks>,
    ) -> Result<bool, NodeReport> {
        let (calls, list) = (self.calls, &self.cluster.members);
        let info = |node: usize| infos[node].as_ref();
        let note_id = |node| info(node).and_then(|info| info.note_id.clone());
        let note = |id, instead_of| NoteRequest { list: list.clone(), id, instead_of };
        match action {
            MemberAction::Note(node) => {
                calls.in_time(self.nodes[*node].note(note(calls.fresh()?, None))).await
            }
            MemberAction::TakeOver(node) => {
                calls.in_time(self.nodes[*node].note(note(calls.fresh()?, note_id(*node)))).await
            }
            MemberAction::Admit { node, terms, helpers, needed, first } => {
                let alone = calls.in_time(self.nodes[*node].stands_alone(*first)).await;
                alone.inspect_err(|report| tracing::warn!(%report, "not admitted"))?;
                let Some(marks) = largest_marks(marks, helpers, *needed) else {
                    let what = NodeProblem::NotAsked("too few helpers to copy marks from".into());
                    return Err(NodeReport::new(self.nodes[*node].label(), what));
                };
                let request = AdmitRequest {
                    note: note_id(*node).unwrap_or_default(),
                    age: self.age,
                    terms: terms.clone(),
                    marks,
                    incarnation: calls.fresh()?,
                };
                calls.copied_in_time(self.nodes[*node].admit(request)).await
            }
        }
    }
}
