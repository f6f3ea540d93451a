//! Refuses a memory of a node that went back to what this locker has seen superseded (PROTOCOL.md ADM10).

use std::sync::PoisonError;

use super::dial::Dialer;
use super::node_info::{node_info_command, record_ids};
use super::resp::Value;
use super::scripts::admission_scripts;
use super::talk::Talk;
use quorumlock_protocol::NodeProblem;
use quorumlock_protocol::admission::ClusterConfig;

impl Dialer {
    /// The ids that this locker, by any of its connections, has read in the records of all runs, and has
    /// not found gone.
    pub(super) fn seen_ids(&self) -> Vec<String> {
        let seen = self.options.seen_ids.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().flat_map(|(_, seen)| seen.current()).collect()
    }

    /// The node info, in which nothing is superseded. `before`: what this locker knew when it asked for
    /// `info`. The script revokes only what the record has at that moment: another connection may have
    /// read a later record meanwhile, of a node that is healthy.
    pub(super) async fn refuse_earlier_memory(
        &self,
        talk: &mut Talk<'_>,
        cluster: &ClusterConfig,
        (before, info): (Vec<String>, Value),
    ) -> Result<Value, NodeProblem> {
        let superseded = self.superseded(&before, &info);
        if superseded.is_empty() {
            return Ok(info);
        }
        let mut revoke = redis::cmd("EVAL");
        revoke.arg(admission_scripts::REVOKE).arg(1).arg(cluster.record_key()).arg(superseded);
        let before = self.seen_ids();
        talk.write(&[revoke, node_info_command(cluster, self.options.observes)]).await?;
        match talk.receive().await? {
            Value::Error(text) => return Err(NodeProblem::from_reply(&text)),
            Value::Int(1..) => {
                let node = self.target.label();
                tracing::warn!(%node, "its memory went back to an earlier one: it must be proven again");
            }
            _ => {}
        }
        let info = talk.receive().await?;
        match self.superseded(&before, &info).is_empty() {
            true => Ok(info),
            // It went back once more.
            false => Err(NodeProblem::NotAdmitted),
        }
    }

    /// The ids in the record that this run of the server had, and had no more, before. A proxy or a
    /// failover may lead to another server, and back to a healthy one.
    fn superseded(&self, before: &[String], info: &Value) -> Vec<String> {
        /// How many runs are remembered.
        const RUNS: usize = 8;

        let Some((run, shown)) = record_ids(info) else { return Vec::new() };
        let mut runs = self.options.seen_ids.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.iter().position(|(known, _)| *known == run);
        let (_, mut seen) = known.map(|at| runs.remove(at)).unwrap_or_default();
        seen.learn(before, &shown);
        let superseded = seen.superseded_among(&shown);
        if runs.len() == RUNS {
            runs.remove(0);
        }
        runs.push((run, seen));
        superseded
    }
}
