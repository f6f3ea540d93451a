//! A node's admission record, and a model of admission's scripts `note.lua`, `barrier.lua`,
//! `admit.lua`, `write_terms.lua` and `provision.lua`. A test compares it with the real scripts.

use quorumlock_protocol::admission::members::{MemberList, MemberRecord, Note, Terms};
use quorumlock_protocol::admission::{AdmitRequest, ClusterConfig, Marks, NoteRequest};
use quorumlock_protocol::{Fence, Incarnation};

use super::store::Store;
use super::time::Micros;

/// The hash `{prefix}:node`. A node can lose it like any other data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRecords {
    pub incarnation: String,
    pub record: Option<MemberRecord>,
    /// The id of the note, and the note.
    pub note: Option<(String, Note)>,
    /// The longest lease and the clock bound, in milliseconds.
    pub agreed_ms: Option<(u64, u64)>,
    pub outdated: Option<(MemberList, i64)>,
}

/// The server that runs a script: what it knows beside the record.
pub struct ScriptContext<'a> {
    pub run_identity: &'a str,
    /// Its label, as the client knows it.
    pub label: &'a str,
    /// Its wall clock and the client's, in microseconds.
    pub clocks: (i64, i64),
    pub cluster: &'a ClusterConfig,
    pub at: Micros,
}

impl ScriptContext<'_> {
    /// `agreed_time.lua`.
    fn agreed_time(&self) -> Option<i64> {
        let (server, client) = self.clocks;
        (u128::from(server.abs_diff(client)) <= self.cluster.clock_bound.as_micros())
            .then_some(server)
    }

    fn admitted(&self, terms: Terms, incarnation: &str) -> AdmissionRecords {
        AdmissionRecords {
            incarnation: incarnation.to_owned(),
            record: Some(MemberRecord {
                label: self.label.into(),
                terms,
                run_identity: self.run_identity.into(),
            }),
            note: None,
            agreed_ms: Some((self.cluster.longest_ms(), self.cluster.clock_bound_ms())),
            outdated: None,
        }
    }
}

impl AdmissionRecords {
    fn is_of(&self, run_identity: &str) -> bool {
        self.record.as_ref().is_some_and(|record| *record.run_identity == *run_identity)
    }

    fn noted(&self, context: &ScriptContext<'_>) -> Option<&(String, Note)> {
        let of_the_run = |(_, note): &&(String, Note)| {
            *note.run_identity == *context.run_identity && *note.label == *context.label
        };
        self.note.as_ref().filter(of_the_run)
    }
}

impl Store {
    /// What `node_info.lua` writes: a list that is not the newest.
    pub fn note_outdated(&mut self, list: &MemberList, context: &ScriptContext<'_>) {
        let record = self.admission_record.as_ref().and_then(|stored| stored.record.as_ref());
        let newest = record.map(|record| record.terms.next.as_ref().unwrap_or(&record.terms.list));
        if newest.is_some_and(|newest| newest != list)
            && let Some(stored) = self.record_to_write(context.at)
        {
            stored.outdated = Some((list.clone(), context.clocks.0));
        }
    }

    /// `note.lua`.
    pub fn write_note(&mut self, request: &NoteRequest, context: &ScriptContext<'_>) -> bool {
        let Some(time) = context.agreed_time() else { return false };
        let stored = self.admission_record.clone().unwrap_or_default();
        if let Some(record) = stored.record.as_ref().filter(|_| stored.is_of(context.run_identity))
            && !(record.terms.admit(&request.list) && *record.label != *context.label)
        {
            return false;
        }
        let since = match (&request.instead_of, stored.noted(context)) {
            (Some(other), Some((id, note))) if id == other => note.since,
            (Some(_), _) => return false,
            (None, Some((_, note))) if note.since <= time => return false,
            (None, _) => time,
        };
        let note = Note {
            label: context.label.into(),
            run_identity: context.run_identity.into(),
            list: request.list.clone(),
            since,
        };
        let id = format!("{}/{}", context.run_identity, request.id);
        self.record_to_write(context.at).get_or_insert_default().note = Some((id, note));
        true
    }

    /// `barrier.lua`. Returns the marks. `fresh`: whether it renews the incarnation.
    pub fn barrier(
        &mut self,
        incarnation: &str,
        fresh: bool,
        context: &ScriptContext<'_>,
    ) -> Marks {
        let admits = |stored: &AdmissionRecords| {
            stored.is_of(context.run_identity) && !stored.incarnation.is_empty()
        };
        if fresh
            && self.admission_record.as_ref().is_some_and(admits)
            && let Some(stored) = self.record_to_write(context.at)
        {
            incarnation.clone_into(&mut stored.incarnation);
        }
        let marks = self.marks.iter().filter(|(_, mark)| **mark > 0);
        marks.map(|(slot, mark)| (*slot, Fence::new(*mark))).collect()
    }

    /// `admit.lua`.
    pub fn admit(&mut self, request: &AdmitRequest, context: &ScriptContext<'_>) -> bool {
        let Some(time) = context.agreed_time() else { return false };
        let stored = self.admission_record.clone().unwrap_or_default();
        let mature = |(id, note): &(String, Note)| {
            let age = i64::try_from(request.age.as_micros()).unwrap_or(i64::MAX);
            *id == request.note && time - note.since >= age
        };
        if !stored.noted(context).is_some_and(mature) {
            return false;
        }
        for (slot, mark) in &request.marks {
            let known = self.marks.entry(*slot).or_default();
            *known = mark.get().max(*known);
        }
        *self.record_to_write(context.at) =
            Some(context.admitted(request.terms.clone(), &request.incarnation));
        true
    }

    /// `write_terms.lua`.
    pub fn write_terms(
        &mut self,
        found: Incarnation,
        (terms, incarnation): (&Terms, &str),
        context: &ScriptContext<'_>,
    ) -> bool {
        let stored = self.admission_record.clone().unwrap_or_default();
        let phase = stored.record.as_ref().map_or(0, |record| record.terms.phase);
        if !stored.is_of(context.run_identity)
            || stored.incarnation != found.to_string()
            || phase + 1 != terms.phase
        {
            return false;
        }
        let written = context.admitted(terms.clone(), incarnation);
        let (note, agreed_ms) = (stored.note, stored.agreed_ms);
        *self.record_to_write(context.at) = Some(AdmissionRecords { note, agreed_ms, ..written });
        true
    }

    /// `provision.lua`.
    pub fn provision(
        &mut self,
        found: Option<Incarnation>,
        (terms, incarnation): (&Terms, &str),
        context: &ScriptContext<'_>,
    ) -> bool {
        let stored = self.admission_record.as_ref();
        let present = stored.filter(|stored| stored.is_of(context.run_identity));
        let seen = present.map_or("", |stored| &stored.incarnation);
        if seen != found.map_or_else(String::new, |found| found.to_string()) {
            return false;
        }
        *self.record_to_write(context.at) = Some(context.admitted(terms.clone(), incarnation));
        true
    }

    /// Whether the record says that this run of the server is admitted.
    pub fn admits(&self, run_identity: &str) -> bool {
        self.admission_record.as_ref().is_some_and(|stored| stored.is_of(run_identity))
    }
}
