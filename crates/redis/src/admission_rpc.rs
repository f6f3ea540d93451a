//! The admission RPCs of a node. They use the watchdog's connection.

use redis::Cmd;

use super::command::Command;
use super::handshake::{node_info_command, read_node_info};
use super::resp::Value;
use super::scripts::admission_scripts;
use crate::node::RedisNode;
use quorumlock_protocol::admission::{AdmissionRpc, ClusterConfig, Marks, NodeInfo};
use quorumlock_protocol::{
    Answer, BoxFuture, Denial, Fence, Name, NodeProblem, NodeReport, ReplyFuture,
};

impl RedisNode {
    /// Runs an admission script.
    pub(crate) fn run(
        &self,
        command: impl FnOnce(&ClusterConfig) -> Cmd,
    ) -> BoxFuture<Result<Value, NodeReport>> {
        let Some(cluster) = &self.cluster else {
            let report = self.context.report(NodeProblem::NotAsked("admission is off".into()));
            return Box::pin(std::future::ready(Err(report)));
        };
        let (slot, to) = ReplyFuture::new();
        self.watchdog.post(Command::Admission { command: command(cluster), to });
        let label = self.context.label.clone();
        Box::pin(async move {
            match slot.await {
                Answer::Yes(value) => Ok(value),
                Answer::No(
                    Denial::Refused(report) | Denial::NotAdmitted(report) | Denial::Stale(report),
                ) => Err(report),
                Answer::No(Denial::Config(error)) => {
                    Err(NodeReport::new(label, NodeProblem::NotAsked(error.to_string())))
                }
                Answer::No(Denial::Busy(_) | Denial::Gone) => {
                    Err(NodeReport::new(label, NodeProblem::Malformed("to a script".into())))
                }
                Answer::NoAnswer(no_answer) => Err(no_answer.report().clone()),
            }
        })
    }
}

impl AdmissionRpc for RedisNode {
    fn proven(&self) -> bool {
        self.callers.proven() && self.watchdog.proven()
    }

    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>> {
        let reply = self.run(node_info_command);
        let label = self.context.label.clone();
        Box::pin(async move {
            let reply = reply.await?;
            let odd = || NodeProblem::Malformed("INFO in a script".into());
            read_node_info(&reply).ok_or_else(|| NodeReport::new(label, odd()))
        })
    }

    fn begin_quarantine(&self, id: &str) -> BoxFuture<Result<(), NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::BEGIN_QUARANTINE, cluster, 0);
            cluster_args(eval.arg(id), cluster).to_owned()
        });
        Box::pin(async move { reply.await.map(|_| ()) })
    }

    fn barrier(&self, stamp: &str) -> BoxFuture<Result<Marks, NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::BARRIER, cluster, Name::SLOTS);
            for slot in 0..Name::SLOTS {
                eval.arg(Name::mark_key_of(slot));
            }
            eval.arg(stamp).to_owned()
        });
        let label = self.context.label.clone();
        Box::pin(async move {
            let reply = reply.await?;
            let odd = || NodeProblem::Malformed("to a barrier".into());
            read_marks(&reply).ok_or_else(|| NodeReport::new(label, odd()))
        })
    }

    fn admit(&self, note: &str, stamp: &str, marks: &Marks) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::ADMIT, cluster, marks.len());
            for slot in marks.keys() {
                eval.arg(Name::mark_key_of(*slot));
            }
            eval.arg(note).arg(stamp);
            for mark in marks.values() {
                eval.arg(mark.get());
            }
            eval
        });
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }

    fn provision(&self, stamp: &str, replace: bool) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::PROVISION, cluster, 0);
            cluster_args(eval.arg(stamp), cluster).arg(u8::from(replace)).to_owned()
        });
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }
}

/// An `EVAL` whose first key is the admission record; the caller appends `keys` more.
pub(crate) fn script(text: &str, cluster: &ClusterConfig, keys: usize) -> Cmd {
    redis::cmd("EVAL").arg(text).arg(1 + keys).arg(cluster.record_key()).to_owned()
}

/// Decodes the reply of barrier.lua.
fn read_marks(reply: &Value) -> Option<Marks> {
    let Value::Array(items) = reply else { return None };
    let pair = |pair: &[Value]| {
        let [Value::Int(slot), Value::Int(mark)] = pair else { return None };
        let slot = usize::try_from(*slot).ok().filter(|slot| *slot < Name::SLOTS)?;
        Some((slot, Fence::new(u64::try_from(*mark).ok()?)))
    };
    items.chunks(2).map(pair).collect()
}

fn cluster_args<'a>(eval: &'a mut Cmd, cluster: &ClusterConfig) -> &'a mut Cmd {
    eval.arg(&cluster.cluster).arg(cluster.epoch).arg(cluster.nodes).arg(cluster.longest_ms())
}

pub(crate) fn number(reply: Value) -> u64 {
    match reply {
        Value::Int(n) => u64::try_from(n).unwrap_or(0),
        _ => 0,
    }
}
