//! Watches over the nodes whose memory is not proven, and admits nodes on an operator's word.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::{Admission, Entropy, answer_deadline};
use quorumlock_protocol::admission::members::Terms;
use quorumlock_protocol::admission::{
    AdmissionRpc, ClusterConfig, NodeInfo, NodeStatus, NodeStatusReport, classify, status_reports,
};
use quorumlock_protocol::{BoxFuture, Error, Instant, Lane, NoMajority, NodeProblem, NodeReport};
use quorumlock_watchdog::Clock;
use tokio::sync::Mutex;

use crate::admission_calls::AdmissionCalls;
use crate::member_pass::MemberPass;

/// The share of short processes that wait for a node that has not greeted them, for the answer timeout. It
/// hangs, or it has restarted and greets slowly: these processes bring it back (decision 37).
const MEETS_ALL: f64 = 1.0 / 16.0;

/// Admits the nodes of one list.
pub(crate) struct AdmissionTask<N> {
    nodes: Arc<[Arc<N>]>,
    cluster: ClusterConfig,
    clock: Clock,
    entropy: Entropy,
    max_clock_drift: f64,
    answer_timeout: Duration,
    /// When the nodes were last examined.
    last_pass: Mutex<Option<Instant>>,
}

impl<N: AdmissionRpc> Admission for AdmissionTask<N> {
    fn run(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move { self.watch().await })
    }

    fn pass(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move { self.pass_if_due().await })
    }

    fn meets_all(&self) -> bool {
        !self.nodes.iter().all(|node| node.proven()) || self.entropy.fraction() < MEETS_ALL
    }

    fn admit_nodes(self: Arc<Self>, force: bool) -> BoxFuture<Result<(), Error>> {
        Box::pin(async move { self.admit_all(force).await })
    }

    fn node_status(self: Arc<Self>) -> BoxFuture<Result<Vec<NodeStatusReport>, Error>> {
        Box::pin(async move { Ok(self.status().await) })
    }
}

impl<N: AdmissionRpc> AdmissionTask<N> {
    /// For a lessor over these nodes, the list of `cluster`. `max_clock_drift` is the bound on the
    /// drift of the nodes' clocks.
    pub(crate) fn new(
        nodes: Arc<[Arc<N>]>,
        cluster: ClusterConfig,
        clock: Clock,
        entropy: Entropy,
        (max_clock_drift, answer_timeout): (f64, Duration),
    ) -> Self {
        let last_pass = Mutex::default();
        Self { nodes, cluster, clock, entropy, max_clock_drift, answer_timeout, last_pass }
    }

    /// Examines the nodes while one of them is not proven. Never ends.
    async fn watch(&self) {
        loop {
            tokio::time::sleep(self.pause()).await;
            self.pass_if_due().await;
        }
    }

    /// Examines the nodes now, and does what the rules say, unless all are proven or somebody has
    /// just done so. A short process does this before it fails, so that a fleet of them gets on.
    async fn pass_if_due(&self) {
        if self.nodes.iter().all(|node| node.proven()) {
            return;
        }
        let mut last = self.last_pass.lock().await;
        if last.is_some_and(|last| self.clock.now().since(last) < self.pause()) {
            return;
        }
        let (nodes, age) = (self.refs(), self.age());
        MemberPass { nodes: &nodes, cluster: &self.cluster, age, calls: self.calls() }.run().await;
        *last = Some(self.clock.now());
    }

    /// Admits all nodes at once, and waits up to 1 s until their connections know it. Does nothing where
    /// all vote, unless it is forced (PROTOCOL.md ADM11).
    async fn admit_all(&self, force: bool) -> Result<(), Error> {
        let examined = self.connect_and_examine().await;
        let silent: Vec<_> = examined.iter().filter_map(|info| info.clone().err()).collect();
        let infos: Vec<_> = examined.into_iter().map(Result::ok).collect();
        let objections = [self.objections(&infos, force).await, silent].concat();
        if !objections.is_empty() {
            return Err(self.no_majority(objections));
        }
        if !force && infos.iter().flatten().all(|info| self.admits(info)) {
            return Ok(());
        }
        let records = infos.iter().flatten().filter_map(|info| info.memory.record.as_ref());
        let phase = records.map(|record| record.terms.phase).max().unwrap_or(0) + 1;
        let terms = Terms { phase, list: self.cluster.members.clone(), next: None };
        let provisioned =
            self.nodes.iter().zip(infos.iter().flatten()).map(async |(node, info)| {
                let provisioned = self.provision(node, info, &terms).await;
                provisioned.err().map(|report| NodeReport::new(node.label(), report.problem))
            });
        let failed: Vec<_> = join_all(provisioned).await.into_iter().flatten().collect();
        if !failed.is_empty() {
            return Err(self.no_majority(failed));
        }
        let proven = async {
            while !self.nodes.iter().all(|node| node.proven()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // 1 s is longer than an unproven connection waits before it checks again. A connection that
        // is later still costs one failed attempt.
        let _ = tokio::time::timeout(Duration::from_secs(1), proven).await;
        // Reports nodes that were admitted and still cannot vote now, not at the first lock.
        let infos = self.infos().await;
        let refused: Vec<_> = self.reports(&infos, |_| true).collect();
        if refused.is_empty() { Ok(()) } else { Err(self.no_majority(refused)) }
    }

    /// Why the nodes that answer must not be admitted: one cannot vote as it is set up; or, unless
    /// the operator insists, one belongs to another cluster or to newer programs, has a cluster in
    /// another database, or does not vote though another has the record of this cluster.
    async fn objections(&self, infos: &[Option<NodeInfo>], force: bool) -> Vec<NodeReport> {
        let founded = !force && infos.iter().flatten().any(|info| self.shows_our_cluster(info));
        let mut objections: Vec<_> = self
            .reports(infos, |status| match status {
                NodeStatus::Unfit(_) => true,
                NodeStatus::OtherMembers { .. } | NodeStatus::NewerProtocol(_) => !force,
                _ => founded,
            })
            .collect();
        for report in &mut objections {
            if matches!(report.problem, NodeProblem::New | NodeProblem::NotAdmitted) {
                report.problem = NodeProblem::Founded;
            }
        }
        let other_cluster = async |(node, info): (&Arc<N>, &Option<NodeInfo>)| {
            let new = info.as_ref().is_some_and(|info| info.memory.record.is_none());
            if force || founded || !new {
                return None;
            }
            let problem = match self.calls().in_time(node.other_databases()).await {
                Ok(others) => NodeProblem::OtherDatabase(*others.first()?),
                Err(report) => report.problem,
            };
            Some(NodeReport::new(node.label(), problem))
        };
        let others = join_all(self.nodes.iter().zip(infos).map(other_cluster)).await;
        objections.extend(others.into_iter().flatten());
        objections
    }

    fn admits(&self, info: &NodeInfo) -> bool {
        matches!(classify(info, &self.cluster), NodeStatus::Admitted(_))
    }

    /// Whether the node has a record of this cluster, of whichever run.
    fn shows_our_cluster(&self, info: &NodeInfo) -> bool {
        let foreign = |status| {
            matches!(status, NodeStatus::OtherMembers { .. } | NodeStatus::NewerProtocol(_))
        };
        info.has_record() && !foreign(classify(info, &self.cluster))
    }

    async fn provision(&self, node: &N, info: &NodeInfo, terms: &Terms) -> Result<(), NodeReport> {
        let calls = self.calls();
        let provision = node.provision(info.incarnation, terms, &calls.fresh()?);
        match calls.in_time(provision).await? {
            true => Ok(()),
            false => Err(NodeReport::new(node.label(), NodeProblem::Reverified)),
        }
    }

    /// The nodes that do not vote, as far as `meant` selects their status.
    fn reports(
        &self,
        infos: &[Option<NodeInfo>],
        meant: impl Fn(&NodeStatus) -> bool,
    ) -> impl Iterator<Item = NodeReport> {
        self.nodes.iter().zip(infos).filter_map(move |(node, info)| {
            let status = Some(classify(info.as_ref()?, &self.cluster)).filter(&meant)?;
            Some(NodeReport::new(node.label(), status.problem()?))
        })
    }

    /// The error of a call that needs all nodes.
    fn no_majority(&self, nodes: Vec<NodeReport>) -> Error {
        let all = self.nodes.len();
        NoMajority::new(None, (all, all), all - nodes.len().min(all), nodes).into()
    }

    /// Which nodes may vote now.
    async fn status(&self) -> Vec<NodeStatusReport> {
        let named = |(node, info): (&Arc<N>, Result<NodeInfo, NodeReport>)| {
            let info = info.map_err(|report| report.problem);
            (node.label().to_owned(), node.member().clone(), info)
        };
        let nodes = self.nodes.iter().zip(self.examine().await).map(named).collect();
        status_reports(&self.cluster, nodes, self.age())
    }

    async fn infos(&self) -> Vec<Option<NodeInfo>> {
        self.examine().await.into_iter().map(Result::ok).collect()
    }

    async fn examine(&self) -> Vec<Result<NodeInfo, NodeReport>> {
        self.calls().examine(&self.refs()).await
    }

    /// As [`Self::examine`]. A node that is being connected has the time for that, too: the connect
    /// timeout bounds it.
    async fn connect_and_examine(&self) -> Vec<Result<NodeInfo, NodeReport>> {
        let within = self.answer_timeout;
        join_all(self.nodes.iter().map(async |node| {
            let connected = || node.connected_since(Lane::Watchdog);
            let shown = answer_deadline(within, &self.clock, connected, node.node_info()).await;
            let late = || NodeReport::new(node.label(), NodeProblem::NoAnswer(within));
            shown.unwrap_or_else(|| Err(late()))
        }))
        .await
    }

    /// How long one pass comes after another.
    fn pause(&self) -> Duration {
        (self.cluster.longest / 40).clamp(Duration::from_millis(20), Duration::from_millis(500))
    }

    fn age(&self) -> Duration {
        self.cluster.note_age(self.max_clock_drift)
    }

    fn refs(&self) -> Vec<&N> {
        self.nodes.iter().map(|node| &**node).collect()
    }

    fn calls(&self) -> AdmissionCalls<'_> {
        AdmissionCalls { entropy: &self.entropy, answer_timeout: self.answer_timeout }
    }
}

impl<N> fmt::Debug for AdmissionTask<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionTask").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
