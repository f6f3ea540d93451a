//! The operator's change of members (docs/PROTOCOL.md MEM6). It keeps nothing: started again, it
//! reads the nodes and waits anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::Entropy;
use quorumlock_protocol::admission::AdmissionRpc;
use quorumlock_protocol::admission::members::{
    ChangeRefused, ChangeStep, MemberInfo, MemberList, MemberRpc, Terms, change_step, may_follow,
};
use quorumlock_protocol::{Incarnation, Instant};
use quorumlock_watchdog::Clock;

use crate::member_pass::MemberPass;

/// One change of a list by one server, phase by phase.
#[derive(Debug)]
pub struct MemberChange<'a, N> {
    /// The nodes of both lists, each with its label.
    pub nodes: &'a BTreeMap<Arc<str>, N>,
    /// The nodes of the list that the operator changes to, in its order.
    pub targets: &'a [N],
    /// That list.
    pub target: &'a MemberList,
    /// The longest lease, on any clock that leases were counted by.
    pub longest: Duration,
    /// How old a mature note is.
    pub age: Duration,
    /// Our clock.
    pub clock: &'a Clock,
    /// Fresh ids and incarnations.
    pub entropy: &'a Entropy,
    /// How long an answer is awaited.
    pub answer_timeout: Duration,
    /// Where the wait of the present phase stands.
    pub confirmed: Option<Confirmed>,
}

/// All that must have been seen to show the present phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    terms: Terms,
    incarnations: BTreeMap<Arc<str>, Incarnation>,
    since: Instant,
}

impl<N: AdmissionRpc + MemberRpc> MemberChange<'_, N> {
    /// Looks once, writes what may be written, and says what it waits for. `None`: no node shows a
    /// record.
    ///
    /// # Errors
    /// The list is not one step away.
    pub async fn step(&mut self) -> Result<Option<ChangeStep>, ChangeRefused> {
        let infos = self.infos().await;
        // The clock is read after the answers: the wait must not count from before them.
        let now = self.clock.now();
        let newest = infos.values().filter_map(terms_of).max_by_key(|terms| terms.phase);
        let Some(current) = newest.cloned() else { return Ok(None) };
        let shows = |label: &str| infos.get(label).and_then(terms_of) == Some(&current);
        let waited = self.waited(&current, &infos, now);
        let step = change_step(&current, self.target, shows, waited, self.longest)?;
        match &step {
            ChangeStep::Begin(next) => self.write(&infos, next).await,
            _ => self.write(&infos, &current).await,
        }
        if matches!(step, ChangeStep::Unconfirmed(_)) {
            self.confirmed = None;
            let (list, age, entropy) = (self.target, self.age, self.entropy);
            let answer_timeout = self.answer_timeout;
            MemberPass { nodes: self.targets, list, age, entropy, answer_timeout }.run().await;
        }
        Ok(Some(step))
    }

    /// For how long the nodes have shown the phase with the same incarnations.
    fn waited(
        &mut self,
        terms: &Terms,
        infos: &BTreeMap<Arc<str>, MemberInfo>,
        now: Instant,
    ) -> Duration {
        let incarnation = |label: &Arc<str>| infos.get(label).and_then(|info| info.incarnation);
        let incarnations = self.target.labels().iter();
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

    async fn write(&self, infos: &BTreeMap<Arc<str>, MemberInfo>, terms: &Terms) {
        for (label, info) in infos {
            let Some(incarnation) = info.incarnation else { continue };
            let follows = terms_of(info).is_some_and(|found| may_follow(found, terms));
            let (true, Some(node), Ok(stamp)) =
                (follows, self.nodes.get(label), self.entropy.nonce())
            else {
                continue;
            };
            let written = node.write_phase(incarnation, terms, &stamp.to_string());
            if let Ok(Err(report)) = tokio::time::timeout(self.answer_timeout, written).await {
                tracing::debug!(%label, %report, "members: phase not written");
            }
        }
    }

    async fn infos(&self) -> BTreeMap<Arc<str>, MemberInfo> {
        let asked: Vec<_> =
            self.nodes.iter().map(|(label, node)| (label, node.member_info())).collect();
        let mut infos = BTreeMap::new();
        for (label, info) in asked {
            if let Ok(Ok(info)) = tokio::time::timeout(self.answer_timeout, info).await {
                infos.insert(label.clone(), info);
            }
        }
        infos
    }
}

/// The terms of a record of the present run.
fn terms_of(info: &MemberInfo) -> Option<&Terms> {
    info.incarnation?;
    info.memory.record.as_ref().map(|record| &record.terms)
}
