//! A node's record, and admission's scripts: a model of `mark.lua`, `barrier.lua`, `admit.lua` and
//! `provision.lua`, held against the real ones by a test.

use quorumlock_core::admission::{Charter, Record};

use super::store::Store;
use super::time::Micros;

/// The hash `{prefix}:node`: data like any other, and lost like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) record: Record,
    /// Where missing counters start at least.
    pub(super) floor: u64,
    /// The largest counter ever issued here, in steps.
    pub(super) fmax: u64,
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

    fn largest(&self) -> u64 {
        self.fmax.max(self.floor)
    }
}

impl Store {
    /// `mark.lua`: the mark, or nothing if this life is admitted.
    pub(super) fn mark(&mut self, id: &str, charter: &Charter, life: &str, at: Micros) -> String {
        if let Some(Page { record, .. }) = &self.page {
            if record.life == life && record.stamp.len() == 32 {
                return String::new();
            }
            if marks(&record.pending, life) {
                return record.pending.clone();
            }
        }
        let mark = format!("{life}/{id}");
        let page = self.page_to_write(at).get_or_insert_with(|| Page::of(charter));
        page.record.pending.clone_from(&mark);
        mark
    }

    /// `barrier.lua`: the largest counter; `fresh`: whether the stamp is renewed.
    pub(super) fn barrier(&mut self, stamp: &str, life: &str, fresh: bool, at: Micros) -> u64 {
        let Some(page) = &self.page else { return 0 };
        let largest = page.largest();
        let admitted = page.record.life == life && !page.record.stamp.is_empty();
        if admitted
            && fresh
            && let Some(page) = self.page_to_write(at)
        {
            stamp.clone_into(&mut page.record.stamp);
        }
        largest
    }

    /// `admit.lua`: whether the mark still stood.
    pub(super) fn admit(
        &mut self,
        (mark, stamp, floor): (&str, &str, u64),
        life: &str,
        at: Micros,
    ) -> bool {
        let stands = |page: &Page| page.record.pending == mark && marks(mark, life);
        if !self.page.as_ref().is_some_and(stands) {
            return false;
        }
        if let Some(page) = self.page_to_write(at) {
            page.floor = page.floor.max(floor);
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
        page.floor = page.largest();
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

/// Whether `mark` was made in this life.
fn marks(mark: &str, life: &str) -> bool {
    mark.strip_prefix(life).is_some_and(|rest| rest.starts_with('/'))
}
