//! Watches nodes whose memory is not proven, for as long as a locker lives.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::Entropy;
use quorumlock_protocol::admission::{
    AdmissionAction, AdmissionRpc, ClusterConfig, NodeStatus, NodeStatusReport, Readmission,
    classify,
};
use quorumlock_protocol::{Error, NoMajority, NodeProblem, NodeReport};
use quorumlock_watchdog::Clock;

use crate::admission_calls::AdmissionCalls;

/// Carries out the decisions of a [`Readmission`].
pub(crate) struct AdmissionTask<N: AdmissionRpc> {
    pub(crate) nodes: Arc<[N]>,
    pub(crate) cluster: ClusterConfig,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) max_clock_drift: f64,
    pub(crate) answer_timeout: Duration,
}

impl<N: AdmissionRpc> AdmissionTask<N> {
    /// Never ends.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut readmission = Readmission::new(self.cluster.clone(), self.max_clock_drift);
        let pause = (self.cluster.longest / 40)
            .clamp(Duration::from_millis(20), Duration::from_millis(500));
        loop {
            tokio::time::sleep(pause).await;
            if self.nodes.iter().all(AdmissionRpc::proven) {
                continue;
            }
            let statuses = self.statuses().await;
            // Read after the answers: a quarantine must not count from before its note was seen.
            let now = self.clock.now();
            for act in readmission.step(&statuses, now) {
                if let Err(report) = self.act(&act).await {
                    tracing::debug!(?act, %report, "admission: not done");
                }
            }
        }
    }

    /// Admits all nodes at once, and waits up to 1 s until their connections know it.
    pub(crate) async fn admit_nodes(self: Arc<Self>) -> Result<(), Error> {
        // Unfit nodes fail the call before anything is written.
        let unfit = self.not_voters(|status| matches!(status, NodeStatus::Unfit(_))).await;
        if !unfit.is_empty() {
            return Err(self.no_majority(unfit));
        }
        let mut failed = Vec::new();
        for node in self.nodes.iter() {
            let calls = self.calls();
            let done = match calls.fresh() {
                Ok(incarnation) => calls.in_time(node.provision(&incarnation, true)).await,
                Err(report) => Err(report),
            };
            if let Err(report) = done {
                failed.push(NodeReport::new(node.label(), report.problem));
            }
        }
        if !failed.is_empty() {
            return Err(self.no_majority(failed));
        }
        let proven = async {
            while !self.nodes.iter().all(AdmissionRpc::proven) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // 1 s is longer than an unproven connection waits before it checks again. A connection that
        // is later still costs one failed attempt.
        let _ = tokio::time::timeout(Duration::from_secs(1), proven).await;
        // Reports nodes that were admitted and still cannot vote now, not at the first lock.
        let refused = self.not_voters(|_| true).await;
        if refused.is_empty() { Ok(()) } else { Err(self.no_majority(refused)) }
    }

    /// The nodes that their configuration or their cluster config keeps from voting, as far as
    /// `meant` selects their status.
    async fn not_voters(&self, meant: impl Fn(&NodeStatus) -> bool) -> Vec<NodeReport> {
        let statuses = self.statuses().await;
        let report = |(node, status): (&N, Option<NodeStatus>)| {
            let problem = match status.filter(&meant)? {
                NodeStatus::Unfit(what) => NodeProblem::Unfit(what),
                NodeStatus::ConfigMismatch(mismatch) => NodeProblem::ConfigMismatch(mismatch),
                _ => return None,
            };
            Some(NodeReport::new(node.label(), problem))
        };
        self.nodes.iter().zip(statuses).filter_map(report).collect()
    }

    /// The error of a call that needs all nodes.
    fn no_majority(&self, nodes: Vec<NodeReport>) -> Error {
        let all = self.nodes.len();
        NoMajority::new(None, (all, all), all - nodes.len(), nodes).into()
    }

    /// Which nodes may vote now.
    pub(crate) async fn node_status(self: Arc<Self>) -> Result<Vec<NodeStatusReport>, Error> {
        let statuses = self.statuses().await;
        let examined = |(node, status): (&N, Option<NodeStatus>)| NodeStatusReport {
            node: node.label().to_owned(),
            status,
        };
        Ok(self.nodes.iter().zip(statuses).map(examined).collect())
    }

    async fn statuses(&self) -> Vec<Option<NodeStatus>> {
        let mut statuses = Vec::new();
        let asked: Vec<_> = self.nodes.iter().map(AdmissionRpc::node_info).collect();
        for info in asked {
            let info = tokio::time::timeout(self.answer_timeout, info).await;
            statuses.push(match info {
                Ok(Ok(info)) => Some(classify(&info, &self.cluster)),
                Ok(Err(_)) | Err(_) => None,
            });
        }
        statuses
    }

    async fn act(&self, act: &AdmissionAction) -> Result<(), NodeReport> {
        let calls = self.calls();
        match act {
            AdmissionAction::BeginQuarantine(node) => {
                calls.in_time(self.nodes[*node].begin_quarantine(&calls.fresh()?)).await
            }
            AdmissionAction::Admit { node, quarantine_mark: note, helpers, needed } => {
                // If too few helpers answer, a later step tries again.
                let marks = calls.marks(&self.nodes, (helpers, *needed), *node).await?;
                calls.in_time(self.nodes[*node].admit(note, &calls.fresh()?, &marks)).await?;
                tracing::info!(node = self.nodes[*node].label(), "admitted after its quarantine");
                Ok(())
            }
        }
    }

    fn calls(&self) -> AdmissionCalls<'_> {
        AdmissionCalls { entropy: &self.entropy, answer_timeout: self.answer_timeout }
    }
}
