//! A node's record, and admission's scripts: a model of `note.lua`, `barrier.lua`, `admit.lua` and
//! `provision.lua`, held against the real ones by a test.

use quorumlock_core::Fence;
use quorumlock_core::admission::{Charter, Marks, Record};

use super::store::Store;
use super::time::Micros;

/// The hash `{prefix}:node`: data like any other, and lost like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) record: Record,
}

impl Page {
    fn of(charter: &Charter) -> Self {
        let mut page = Self::default();
        page.agree(charter);
        page
    }

    fn agree(&mut self, charter: &Charter) {
        let record = &mut self.record;
        record.cluster.clone_from(&charter.cluster);
        (record.epoch, record.nodes) = (charter.epoch, charter.nodes);
        record.longest_ms = charter.longest_ms();
    }
}

impl Store {
    /// `note.lua`: the note, or nothing if this life is admitted.
    pub(super) fn note(&mut self, id: &str, charter: &Charter, life: &str, at: Micros) -> String {
        if let Some(Page { record, .. }) = &self.page {
            if record.life == life && record.stamp.len() == 32 {
                return String::new();
            }
            if is_of(&record.pending, life) {
                return record.pending.clone();
            }
        }
        let note = format!("{life}/{id}");
        let page = self.page_to_write(at).get_or_insert_with(|| Page::of(charter));
        page.record.pending.clone_from(&note);
        note
    }

    /// `barrier.lua`: the marks; `fresh`: whether the stamp is renewed.
    pub(super) fn barrier(&mut self, stamp: &str, life: &str, fresh: bool, at: Micros) -> Marks {
        let admits = |page: &Page| page.record.life == life && !page.record.stamp.is_empty();
        if fresh
            && self.page.as_ref().is_some_and(admits)
            && let Some(page) = self.page_to_write(at)
        {
            stamp.clone_into(&mut page.record.stamp);
        }
        let marks = self.marks.iter().filter(|(_, mark)| **mark > 0);
        marks.map(|(slot, mark)| (*slot, Fence::new(*mark))).collect()
    }

    /// `admit.lua`: whether the note still stood.
    pub(super) fn admit(
        &mut self,
        (note, stamp, marks): (&str, &str, &Marks),
        life: &str,
        at: Micros,
    ) -> bool {
        let stands = |page: &Page| page.record.pending == note && is_of(note, life);
        if !self.page.as_ref().is_some_and(stands) {
            return false;
        }
        for (slot, mark) in marks {
            let known = self.marks.entry(*slot).or_default();
            *known = mark.get().max(*known);
        }
        if let Some(page) = self.page_to_write(at) {
            life.clone_into(&mut page.record.life);
            stamp.clone_into(&mut page.record.stamp);
            page.record.pending.clear();
        }
        true
    }

    /// `provision.lua`: whether it was done.
    pub(super) fn provision(
        &mut self,
        (stamp, replace): (&str, bool),
        charter: &Charter,
        life: &str,
        at: Micros,
    ) -> bool {
        if self.page.is_some() && !replace {
            return false;
        }
        let page = self.page_to_write(at).get_or_insert_default();
        page.agree(charter);
        life.clone_into(&mut page.record.life);
        stamp.clone_into(&mut page.record.stamp);
        page.record.pending.clear();
        true
    }

    /// Whether its record says that this life is admitted.
    pub(super) fn admits(&self, life: &str) -> bool {
        self.page.as_ref().is_some_and(|page| page.record.life == life)
    }
}

/// Whether `note` was made in this life.
fn is_of(note: &str, life: &str) -> bool {
    note.strip_prefix(life).is_some_and(|rest| rest.starts_with('/'))
}
