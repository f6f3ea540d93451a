//! The requests about members of a node. They use the watchdog's connection.

use std::collections::HashMap;
use std::time::Duration;

use redis::Cmd;

use super::resp::Value;
use super::scripts::admission_scripts;
use crate::admission_rpc::{number, script};
use crate::node::RedisNode;
use quorumlock_protocol::admission::Marks;
use quorumlock_protocol::admission::members::{
    CLOCK_BOUND, MemberInfo, MemberList, MemberRecord, MemberRpc, NodeMemory, Note, NoteRequest,
    ServerClock, Terms,
};
use quorumlock_protocol::{BoxFuture, Incarnation, Name, NodeProblem, NodeReport};

impl MemberRpc for RedisNode {
    fn member_info(&self) -> BoxFuture<Result<MemberInfo, NodeReport>> {
        let reply = self.run(|config| script(admission_scripts::MEMBER_INFO, config, 0));
        let (label, member) = (self.context.label.clone(), self.member.clone());
        let clock = self.clock.clone();
        Box::pin(async move {
            let reply = reply.await?;
            // The client's time is read after the server's: a late answer makes the server seem
            // behind, and the scripts compare again.
            let client = i64::try_from(clock.wall_micros()).unwrap_or(i64::MAX);
            let odd = || NodeProblem::Malformed("to member_info".into());
            read_info(&reply, &member, client).ok_or_else(|| NodeReport::new(label, odd()))
        })
    }

    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(|config| {
            let mut eval = script(admission_scripts::MEMBER_NOTE, config, 0);
            self.clocks(&mut eval).arg(note.list.text()).arg(note.id);
            eval.arg(note.instead_of.unwrap_or_default()).to_owned()
        });
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }

    fn admit_member(
        &self,
        note_id: &str,
        terms: &Terms,
        stamp: &str,
        age: Duration,
        marks: &Marks,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(|config| {
            let mut eval = script(admission_scripts::MEMBER_ADMIT, config, marks.len());
            for slot in marks.keys() {
                eval.arg(Name::mark_key_of(*slot));
            }
            self.clocks(&mut eval).arg(note_id);
            let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            terms_args(eval.arg(age).arg(stamp), terms).arg(config.longest_ms());
            for mark in marks.values() {
                eval.arg(mark.get());
            }
            eval
        });
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }

    fn write_phase(
        &self,
        found: Incarnation,
        terms: &Terms,
        stamp: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        let reply = self.run(|config| {
            let mut eval = script(admission_scripts::MEMBER_PHASE, config, 0);
            terms_args(eval.arg(found.to_string()).arg(stamp), terms).to_owned()
        });
        Box::pin(async move { reply.await.map(|reply| number(reply) == 1) })
    }
}

impl RedisNode {
    /// The client's time, the clock bound and the label.
    fn clocks<'a>(&self, eval: &'a mut Cmd) -> &'a mut Cmd {
        let bound = u64::try_from(CLOCK_BOUND.as_micros()).unwrap_or(u64::MAX);
        eval.arg(self.clock.wall_micros()).arg(bound).arg(&*self.member)
    }
}

fn terms_args<'a>(eval: &'a mut Cmd, terms: &Terms) -> &'a mut Cmd {
    let next = terms.next.as_ref().map_or_else(String::new, MemberList::text);
    eval.arg(terms.phase).arg(terms.list.text()).arg(next)
}

/// Decodes the reply of member_info.lua.
fn read_info(reply: &Value, member: &std::sync::Arc<str>, client: i64) -> Option<MemberInfo> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Array(record), run, seconds, micros] = parts.as_slice() else { return None };
    let number = |value: &Value| value.text().parse::<i64>().ok();
    let server = number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)?;
    let fields: HashMap<String, String> = record
        .chunks_exact(2)
        .map(|pair| (pair[0].text().into_owned(), pair[1].text().into_owned()))
        .collect();
    let get = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let run_identity = run.text().into_owned();
    let of_the_run = get("life") == run_identity;
    let memory = NodeMemory {
        label: member.clone(),
        record: read_record(&get),
        note: read_note(&get),
        clock: ServerClock { server, client },
        run_identity: run_identity.into(),
    };
    let note_id = memory.note.is_some().then(|| get("pending").to_owned());
    let incarnation = Incarnation::parse(get("stamp")).filter(|_| of_the_run);
    Some(MemberInfo { memory, incarnation, note_id })
}

fn read_record<'a>(get: &impl Fn(&'static str) -> &'a str) -> Option<MemberRecord> {
    let (phase, list) = (get("phase").parse().ok()?, MemberList::parse(get("list"))?);
    Some(MemberRecord {
        label: get("label").into(),
        terms: Terms { phase, list, next: MemberList::parse(get("next")) },
        run_identity: get("life").into(),
    })
}

fn read_note<'a>(get: &impl Fn(&'static str) -> &'a str) -> Option<Note> {
    let (run_identity, _) = get("pending").rsplit_once('/')?;
    Some(Note {
        label: get("note_label").into(),
        run_identity: run_identity.into(),
        list: MemberList::parse(get("note_list"))?,
        since: get("note_since").parse().ok()?,
    })
}
