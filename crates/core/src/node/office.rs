//! Admission's own requests, on the watchdog's connection.

use redis::Cmd;

use super::RedisNode;
use super::greet::{read_sheet, sheet_command};
use super::request::Request;
use super::resp::Value;
use super::scripts::office;
use crate::admission::{Charter, Marks, Sheet, Voter};
use crate::{Answer, Asked, Denial, Fence, Name, NodeProblem, NodeReport, Slot};

impl RedisNode {
    /// Runs one of admission's scripts.
    fn run(&self, command: impl FnOnce(&Charter) -> Cmd) -> Asked<Result<Value, NodeReport>> {
        let Some(charter) = &self.charter else {
            let report = self.dialect.report(NodeProblem::NotAsked("admission is off".into()));
            return Box::pin(std::future::ready(Err(report)));
        };
        let (slot, to) = Slot::new();
        self.keep.post(Request::Office { command: command(charter), to });
        let label = self.dialect.label.clone();
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
                Answer::Silent(silence) => Err(silence.report().clone()),
            }
        })
    }
}

impl Voter for RedisNode {
    fn proven(&self) -> bool {
        self.work.proven() && self.keep.proven()
    }

    fn examine(&self) -> Asked<Result<Sheet, NodeReport>> {
        let told = self.run(sheet_command);
        let label = self.dialect.label.clone();
        Box::pin(async move {
            let told = told.await?;
            let odd = || NodeProblem::Malformed("INFO in a script".into());
            read_sheet(&told).ok_or_else(|| NodeReport::new(label, odd()))
        })
    }

    fn note(&self, id: &str) -> Asked<Result<(), NodeReport>> {
        let told = self.run(|charter| {
            let mut eval = script(office::NOTE, charter, 0);
            charter_args(eval.arg(id), charter).to_owned()
        });
        Box::pin(async move { told.await.map(|_| ()) })
    }

    fn barrier(&self, stamp: &str) -> Asked<Result<Marks, NodeReport>> {
        let told = self.run(|charter| {
            let mut eval = script(office::BARRIER, charter, Name::SLOTS);
            for slot in 0..Name::SLOTS {
                eval.arg(Name::mark_key_of(slot));
            }
            eval.arg(stamp).to_owned()
        });
        let label = self.dialect.label.clone();
        Box::pin(async move {
            let told = told.await?;
            let odd = || NodeProblem::Malformed("to a barrier".into());
            read_marks(&told).ok_or_else(|| NodeReport::new(label, odd()))
        })
    }

    fn admit(&self, note: &str, stamp: &str, marks: &Marks) -> Asked<Result<bool, NodeReport>> {
        let told = self.run(|charter| {
            let mut eval = script(office::ADMIT, charter, marks.len());
            for slot in marks.keys() {
                eval.arg(Name::mark_key_of(*slot));
            }
            eval.arg(note).arg(stamp);
            for mark in marks.values() {
                eval.arg(mark.get());
            }
            eval
        });
        Box::pin(async move { told.await.map(|told| number(told) == 1) })
    }

    fn provision(&self, stamp: &str, replace: bool) -> Asked<Result<bool, NodeReport>> {
        let told = self.run(|charter| {
            let mut eval = script(office::PROVISION, charter, 0);
            charter_args(eval.arg(stamp), charter).arg(u8::from(replace)).to_owned()
        });
        Box::pin(async move { told.await.map(|told| number(told) == 1) })
    }
}

/// With the record as first of its keys, and so many more.
fn script(text: &str, charter: &Charter, keys: usize) -> Cmd {
    redis::cmd("EVAL").arg(text).arg(1 + keys).arg(charter.record_key()).to_owned()
}

/// What barrier.lua replies.
fn read_marks(told: &Value) -> Option<Marks> {
    let Value::Array(items) = told else { return None };
    let pair = |pair: &[Value]| {
        let [Value::Int(slot), Value::Int(mark)] = pair else { return None };
        let slot = usize::try_from(*slot).ok().filter(|slot| *slot < Name::SLOTS)?;
        Some((slot, Fence::new(u64::try_from(*mark).ok()?)))
    };
    items.chunks(2).map(pair).collect()
}

fn charter_args<'a>(eval: &'a mut Cmd, charter: &Charter) -> &'a mut Cmd {
    eval.arg(&charter.cluster).arg(charter.epoch).arg(charter.nodes).arg(charter.longest_ms())
}

fn number(told: Value) -> u64 {
    match told {
        Value::Int(n) => u64::try_from(n).unwrap_or(0),
        _ => 0,
    }
}
