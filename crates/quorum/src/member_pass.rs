//! One look at the members of a cluster, by any process: no process has to live for the longest
//! lease (docs/PROTOCOL.md MEM3 to MEM5).

use std::time::Duration;

use quorumlock_core::Entropy;
use quorumlock_protocol::NodeReport;
use quorumlock_protocol::admission::AdmissionRpc;
use quorumlock_protocol::admission::members::{
    Entry, MemberAction, MemberInfo, MemberList, MemberRpc, NodeMemory, NoteRequest, actions,
    entry, view,
};

use crate::admission_calls::AdmissionCalls;

/// Examines all nodes of a list, and does what the rules say.
#[derive(Debug)]
pub struct MemberPass<'a, N> {
    /// All nodes of the list.
    pub nodes: &'a [N],
    /// The list.
    pub list: &'a MemberList,
    /// How old a mature note is:
    /// [`note_age`](quorumlock_protocol::admission::members::note_age).
    pub age: Duration,
    /// Fresh ids and incarnations.
    pub entropy: &'a Entropy,
    /// How long an answer is awaited.
    pub answer_timeout: Duration,
}

impl<N: AdmissionRpc + MemberRpc> MemberPass<'_, N> {
    /// Acts once, and returns what the nodes showed before.
    pub async fn run(&self) -> Entry {
        let infos = self.infos().await;
        let nodes: Vec<Option<NodeMemory>> =
            infos.iter().map(|info| info.as_ref().map(|info| info.memory.clone())).collect();
        for action in actions(self.list, &nodes, self.age) {
            if let Err(report) = self.act(&action, &infos).await {
                tracing::debug!(?action, %report, "members: not done");
            }
        }
        entry(self.list, &view(self.list, &nodes, self.age))
    }

    async fn infos(&self) -> Vec<Option<MemberInfo>> {
        let (calls, asked) = (self.calls(), self.nodes.iter().map(MemberRpc::member_info));
        let asked: Vec<_> = asked.collect();
        let mut infos = Vec::new();
        for info in asked {
            infos.push(calls.in_time(info).await.ok());
        }
        infos
    }

    async fn act(
        &self,
        action: &MemberAction,
        infos: &[Option<MemberInfo>],
    ) -> Result<bool, NodeReport> {
        let calls = self.calls();
        let note_id = |node: usize| infos[node].as_ref().and_then(|info| info.note_id.clone());
        let note = |id, instead_of| NoteRequest { list: self.list.clone(), id, instead_of };
        match action {
            MemberAction::Note(node) => {
                calls.in_time(self.nodes[*node].note(note(calls.fresh()?, None))).await
            }
            MemberAction::TakeOver(node) => {
                calls.in_time(self.nodes[*node].note(note(calls.fresh()?, note_id(*node)))).await
            }
            MemberAction::Admit { node, terms, helpers, needed } => {
                let marks = calls.marks(self.nodes, (helpers, *needed), *node).await?;
                let (id, incarnation) = (note_id(*node).unwrap_or_default(), calls.fresh()?);
                let node = &self.nodes[*node];
                calls.in_time(node.admit_member(&id, terms, &incarnation, self.age, &marks)).await
            }
        }
    }

    fn calls(&self) -> AdmissionCalls<'_> {
        AdmissionCalls { entropy: self.entropy, answer_timeout: self.answer_timeout }
    }
}
