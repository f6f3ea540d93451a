//! A node's admission record, and a model of admission's scripts `begin_quarantine.lua`, `barrier.lua`,
//! `admit.lua` and `provision.lua`. A test compares it with the real scripts.

use quorumlock_protocol::Fence;
use quorumlock_protocol::admission::{AdmissionRecord, ClusterConfig, Marks};

use super::store::Store;
use super::time::Micros;

/// The hash `{prefix}:node`. A node can lose it like any other data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRecords {
    pub record: AdmissionRecord,
}

impl AdmissionRecords {
    fn of(cluster: &ClusterConfig) -> Self {
        let mut stored = Self::default();
        stored.agree(cluster);
        stored
    }

    fn agree(&mut self, cluster: &ClusterConfig) {
        let record = &mut self.record;
        record.cluster.clone_from(&cluster.cluster);
        (record.epoch, record.nodes) = (cluster.epoch, cluster.nodes);
        record.longest_ms = cluster.longest_ms();
    }
}

impl Store {
    /// `begin_quarantine.lua`. Returns the note, or nothing if this run of the server is already admitted.
    pub fn begin_quarantine(
        &mut self,
        id: &str,
        cluster: &ClusterConfig,
        run_identity: &str,
        at: Micros,
    ) -> String {
        if let Some(AdmissionRecords { record, .. }) = &self.admission_record {
            if record.life == run_identity && record.stamp.len() == 32 {
                return String::new();
            }
            if is_of(&record.pending, run_identity) {
                return record.pending.clone();
            }
        }
        let note = format!("{run_identity}/{id}");
        let stored = self.record_to_write(at).get_or_insert_with(|| AdmissionRecords::of(cluster));
        stored.record.pending.clone_from(&note);
        note
    }

    /// `barrier.lua`. Returns the marks. `fresh`: whether it renews the incarnation.
    pub fn barrier(
        &mut self,
        incarnation: &str,
        run_identity: &str,
        fresh: bool,
        at: Micros,
    ) -> Marks {
        let admits = |stored: &AdmissionRecords| {
            stored.record.life == run_identity && !stored.record.stamp.is_empty()
        };
        if fresh
            && self.admission_record.as_ref().is_some_and(admits)
            && let Some(stored) = self.record_to_write(at)
        {
            incarnation.clone_into(&mut stored.record.stamp);
        }
        let marks = self.marks.iter().filter(|(_, mark)| **mark > 0);
        marks.map(|(slot, mark)| (*slot, Fence::new(*mark))).collect()
    }

    /// `admit.lua`. Returns whether the note was still valid.
    pub fn admit(
        &mut self,
        (note, incarnation, marks): (&str, &str, &Marks),
        run_identity: &str,
        at: Micros,
    ) -> bool {
        let stands =
            |stored: &AdmissionRecords| stored.record.pending == note && is_of(note, run_identity);
        if !self.admission_record.as_ref().is_some_and(stands) {
            return false;
        }
        for (slot, mark) in marks {
            let known = self.marks.entry(*slot).or_default();
            *known = mark.get().max(*known);
        }
        if let Some(stored) = self.record_to_write(at) {
            run_identity.clone_into(&mut stored.record.life);
            incarnation.clone_into(&mut stored.record.stamp);
            stored.record.pending.clear();
        }
        true
    }

    /// `provision.lua`. Returns whether it admitted the node.
    pub fn provision(
        &mut self,
        (incarnation, replace): (&str, bool),
        cluster: &ClusterConfig,
        run_identity: &str,
        at: Micros,
    ) -> bool {
        if self.admission_record.is_some() && !replace {
            return false;
        }
        let stored = self.record_to_write(at).get_or_insert_default();
        stored.agree(cluster);
        run_identity.clone_into(&mut stored.record.life);
        incarnation.clone_into(&mut stored.record.stamp);
        stored.record.pending.clear();
        true
    }

    /// Whether the record says that this run of the server is admitted.
    pub fn admits(&self, run_identity: &str) -> bool {
        self.admission_record.as_ref().is_some_and(|stored| stored.record.life == run_identity)
    }
}

/// Whether `note` was made in this run of the server.
fn is_of(note: &str, run_identity: &str) -> bool {
    note.strip_prefix(run_identity).is_some_and(|rest| rest.starts_with('/'))
}
