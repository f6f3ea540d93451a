//! The operator's change of members (docs/PROTOCOL.md MEM6). It keeps nothing: started again, it
//! reads the nodes and waits anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::Environment;
use quorumlock_protocol::admission::members::{
    ChangeRefused, ChangeStep, MemberList, Terms, Until, change_step, may_follow,
};
use quorumlock_protocol::admission::{AdmissionRpc, ClusterConfig, NodeInfo, config_mismatch};
use quorumlock_protocol::{Incarnation, Instant, PROTOCOL};

use crate::admission_calls::AdmissionCalls;
use crate::member_pass::MemberPass;

/// One change of a list by one server, phase by phase.
#[derive(Debug)]
pub struct MemberChange<N> {
    nodes: Vec<N>,
    target: ClusterConfig,
    until: Until,
    max_clock_drift: f64,
    answer_timeout: Duration,
    environment: Environment,
    confirmed: Option<Confirmed>,
}

/// Where a change stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeProgress {
    /// The newest terms that a node shows.
    pub current: Terms,
    /// What comes next; [`ChangeStep::Done`] at the end.
    pub step: ChangeStep,
}

/// All that must have been seen to show the present phase.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Confirmed {
    terms: Terms,
    incarnations: BTreeMap<Arc<str>, Incarnation>,
    since: Instant,
}

impl<N: AdmissionRpc> MemberChange<N> {
    /// A change to the list of `target`, one server more or less than the present list. `nodes` are
    /// those of both lists.
    pub fn new(
        nodes: Vec<N>,
        target: ClusterConfig,
        until: Until,
        max_clock_drift: f64,
        answer_timeout: Duration,
        environment: Environment,
    ) -> Self {
        Self { nodes, target, until, max_clock_drift, answer_timeout, environment, confirmed: None }
    }

    /// The list that the change leads to.
    pub fn target(&self) -> &MemberList {
        &self.target.members
    }

    /// Looks once, writes what may be written, and says what it waits for. `None`: no node shows a
    /// record.
    ///
    /// # Errors
    /// [`ChangeRefused`]: nothing was written.
    ///
    /// # Cancel safety
    /// Once polled, some nodes may have been written even if the future is dropped. The next step
    /// goes on from there.
    pub async fn step(&mut self) -> Result<Option<ChangeProgress>, ChangeRefused> {
        let infos = self.infos().await;
        // The clock is read after the answers: the wait must not count from before them.
        let now = self.environment.clock.now();
        if let Some(newer) = infos.values().map(|info| info.protocol).find(|of| *of > PROTOCOL) {
            return Err(ChangeRefused::NewerProtocol(newer));
        }
        let of_the_run = infos.values().filter(|info| info.incarnation.is_some());
        let differs = |info| config_mismatch(info, &self.target);
        if let Some(mismatch) = of_the_run.filter_map(differs).next() {
            return Err(ChangeRefused::ConfigMismatch(mismatch));
        }
        let newest = infos.values().filter_map(terms_of).max_by_key(|terms| terms.phase);
        let Some(current) = newest.cloned() else { return Ok(None) };
        let shows = |label: &str| infos.get(label).and_then(terms_of) == Some(&current);
        let waited = self.waited(&current, &infos, now);
        let longest = self.target.longest.mul_f64(1.0 + 2.0 * self.max_clock_drift);
        let step = change_step(&current, self.target(), shows, waited, longest)?;
        let step = step.limited_to(self.until, &current);
        match &step {
            ChangeStep::Begin(next) => self.write(&infos, next).await,
            _ => self.write(&infos, &current).await,
        }
        if matches!(step, ChangeStep::Unconfirmed(_)) {
            self.confirmed = None;
            self.admit().await;
        }
        Ok(Some(ChangeProgress { current, step }))
    }

    /// For how long the nodes have shown the phase with the same incarnations.
    fn waited(
        &mut self,
        terms: &Terms,
        infos: &BTreeMap<Arc<str>, NodeInfo>,
        now: Instant,
    ) -> Duration {
        let incarnation = |label: &Arc<str>| infos.get(label).and_then(|info| info.incarnation);
        let incarnations = self.target().labels().iter();
        let incarnations: BTreeMap<_, _> =
            incarnations.filter_map(|label| Some((label.clone(), incarnation(label)?))).collect();
        match &self.confirmed {
            Some(before) if before.terms == *terms && before.incarnations == incarnations => {
                now.since(before.since)
            }
            _ => {
                self.confirmed = Some(Confirmed { terms: terms.clone(), incarnations, since: now });
                Duration::ZERO
            }
        }
    }

    async fn write(&self, infos: &BTreeMap<Arc<str>, NodeInfo>, terms: &Terms) {
        let calls = self.calls();
        join_all(self.nodes.iter().map(async |node| {
            let Some(info) = infos.get(node.member()) else { return };
            let follows = terms_of(info).is_some_and(|found| may_follow(found, terms));
            let (true, Some(incarnation), Ok(fresh)) = (follows, info.incarnation, calls.fresh())
            else {
                return;
            };
            if let Err(report) = calls.in_time(node.write_terms(incarnation, terms, &fresh)).await {
                tracing::debug!(node = node.label(), %report, "members: not written");
            }
        }))
        .await;
    }

    /// Admits the nodes of the target that are not admitted: the server that is added, and one that
    /// restarts meanwhile.
    async fn admit(&self) {
        let of = |label: &Arc<str>| self.nodes.iter().find(|node| node.member() == label);
        let nodes: Vec<_> = self.target().labels().iter().filter_map(of).collect();
        let age = self.target.note_age(self.max_clock_drift);
        MemberPass { nodes: &nodes, cluster: &self.target, age, calls: self.calls() }.run().await;
    }

    async fn infos(&self) -> BTreeMap<Arc<str>, NodeInfo> {
        let nodes: Vec<_> = self.nodes.iter().collect();
        let shown = self.nodes.iter().zip(self.calls().examine(&nodes).await);
        shown.filter_map(|(node, info)| Some((node.member().clone(), info.ok()?))).collect()
    }

    fn calls(&self) -> AdmissionCalls<'_> {
        let entropy = &self.environment.entropy;
        AdmissionCalls { entropy, answer_timeout: self.answer_timeout }
    }
}

/// The terms of a record of the present run.
fn terms_of(info: &NodeInfo) -> Option<&Terms> {
    info.incarnation?;
    info.memory.record.as_ref().map(|record| &record.terms)
}
