//! The admission RPCs of a node. They use the watchdog's connection.

use std::sync::Arc;

use redis::Cmd;

use super::command::Command;
use super::node_info::{node_info_command, read_node_info};
use super::resp::Value;
use super::scripts::admission_scripts;
use crate::node::RedisNode;
use quorumlock_protocol::admission::members::{MemberList, Terms};
use quorumlock_protocol::admission::{
    AdmissionRpc, AdmitRequest, ClusterConfig, Marks, NodeInfo, NoteRequest,
};
use quorumlock_protocol::{
    Answer, BoxFuture, Denial, FencingToken, Incarnation, Name, NodeProblem, NodeReport, PROTOCOL,
    ReplyFuture,
};

impl RedisNode {
    /// Runs an admission script.
    fn run(
        &self,
        command: impl FnOnce(&ClusterConfig) -> Cmd,
    ) -> BoxFuture<Result<Value, NodeReport>> {
        let Some(cluster) = &self.cluster else {
            let report = self.context.report(NodeProblem::NotAsked("admission is off".into()));
            return Box::pin(std::future::ready(Err(report)));
        };
        let (slot, to) = ReplyFuture::new();
        self.watchdog.post(Command::Raw { command: command(cluster), to });
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

    /// Runs an admission script that answers whether it has done its work.
    fn run_for_done(
        &self,
        command: impl FnOnce(&ClusterConfig) -> Cmd,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(command);
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }

    /// The client's time, the clock bound and the label.
    fn clocks<'a>(&self, eval: &'a mut Cmd, cluster: &ClusterConfig) -> &'a mut Cmd {
        let bound = u64::try_from(cluster.clock_bound.as_micros()).unwrap_or(u64::MAX);
        eval.arg(self.clock.wall_micros()).arg(bound).arg(&*self.member)
    }
}

impl AdmissionRpc for RedisNode {
    fn member(&self) -> &Arc<str> {
        &self.member
    }

    fn proven(&self) -> bool {
        self.callers.proven() && self.watchdog.proven()
    }

    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>> {
        let Some(cluster) = self.cluster.clone() else {
            let report = self.context.report(NodeProblem::NotAsked("admission is off".into()));
            return Box::pin(std::future::ready(Err(report)));
        };
        let reply = self.run(|cluster| node_info_command(cluster, self.context.observes));
        let (label, member) = (self.context.label.clone(), self.member.clone());
        let clock = self.clock.clone();
        Box::pin(async move {
            let reply = reply.await?;
            let malformed = || NodeProblem::Malformed("INFO in a script".into());
            read_node_info(&reply, &member, &cluster, clock.wall_micros())
                .ok_or_else(|| NodeReport::new(label, malformed()))
        })
    }

    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>> {
        self.run_for_done(|cluster| {
            let mut eval = script(admission_scripts::NOTE, cluster, 0);
            self.clocks(&mut eval, cluster).arg(note.list.text()).arg(note.id);
            eval.arg(note.instead_of.unwrap_or_default()).to_owned()
        })
    }

    fn barrier(&self, incarnation: &str) -> BoxFuture<Result<Marks, NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::BARRIER, cluster, Name::SLOTS);
            for slot in 0..Name::SLOTS {
                eval.arg(Name::mark_key_of(slot));
            }
            eval.arg(incarnation);
            eval
        });
        let label = self.context.label.clone();
        Box::pin(async move {
            let reply = reply.await?;
            let malformed = || NodeProblem::Malformed("to a barrier".into());
            read_marks(&reply).ok_or_else(|| NodeReport::new(label, malformed()))
        })
    }

    fn admit(&self, request: AdmitRequest) -> BoxFuture<Result<bool, NodeReport>> {
        let AdmitRequest { note, age, terms, incarnation, marks } = request;
        self.run_for_done(|cluster| {
            let mut eval = script(admission_scripts::ADMIT, cluster, marks.len());
            for slot in marks.keys() {
                eval.arg(Name::mark_key_of(*slot));
            }
            self.clocks(&mut eval, cluster).arg(note);
            let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            terms_args(eval.arg(age).arg(incarnation), &terms);
            eval.arg(cluster.longest_ms()).arg(cluster.clock_bound_ms()).arg(PROTOCOL);
            for mark in marks.values() {
                eval.arg(mark.get());
            }
            eval
        })
    }

    fn write_terms(
        &self,
        found: Incarnation,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.run_for_done(|cluster| {
            let mut eval = script(admission_scripts::WRITE_TERMS, cluster, 0);
            terms_args(eval.arg(found.to_string()).arg(incarnation), terms);
            eval.arg(&*self.member).arg(cluster.clock_bound_ms()).to_owned()
        })
    }

    fn provision(
        &self,
        found: Option<Incarnation>,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.run_for_done(|cluster| {
            let mut eval = script(admission_scripts::PROVISION, cluster, 0);
            eval.arg(incarnation).arg(&*self.member).arg(terms.phase).arg(terms.list.text());
            eval.arg(cluster.longest_ms()).arg(cluster.clock_bound_ms()).arg(PROTOCOL);
            eval.arg(found.map_or_else(String::new, |found| found.to_string())).to_owned()
        })
    }

    fn stands_alone(&self, new: bool) -> BoxFuture<Result<(), NodeReport>> {
        let (callers, context) = (self.callers.clone(), self.context.clone());
        Box::pin(async move {
            let alone = callers.addresses().stands_alone(new).await;
            alone.map_err(|problem| context.report(problem))
        })
    }

    fn other_databases(&self) -> BoxFuture<Result<Vec<u64>, NodeReport>> {
        let reply = self.run(|cluster| {
            let mut eval = script(admission_scripts::OTHER_DATABASES, cluster, 0);
            eval.arg(self.database).to_owned()
        });
        Box::pin(async move {
            let Value::Array(numbers) = reply.await? else { return Ok(Vec::new()) };
            Ok(numbers.into_iter().map(number).collect())
        })
    }
}

/// An `EVAL` whose first key is the admission record; the caller appends `keys` more.
fn script(text: &str, cluster: &ClusterConfig, keys: usize) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(text).arg(1 + keys).arg(cluster.record_key());
    eval
}

/// Decodes the reply of barrier.lua.
fn read_marks(reply: &Value) -> Option<Marks> {
    let Value::Array(items) = reply else { return None };
    let pair = |pair: &[Value]| {
        let [Value::Int(slot), Value::Int(mark)] = pair else { return None };
        let slot = usize::try_from(*slot).ok().filter(|slot| *slot < Name::SLOTS)?;
        Some((slot, FencingToken::new(u64::try_from(*mark).ok()?)))
    };
    items.chunks(2).map(pair).collect()
}

fn terms_args<'a>(eval: &'a mut Cmd, terms: &Terms) -> &'a mut Cmd {
    let next = terms.next.as_ref().map_or_else(String::new, MemberList::text);
    eval.arg(terms.phase).arg(terms.list.text()).arg(next)
}

fn number(reply: Value) -> u64 {
    match reply {
        Value::Int(n) => u64::try_from(n).unwrap_or(0),
        _ => 0,
    }
}
