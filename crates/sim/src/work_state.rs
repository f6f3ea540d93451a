//! What the world records about the workload.

use std::collections::BTreeMap;

use quorumlock_protocol::Name;

use super::invariants::Register;
use super::time::Micros;

/// The resources that the locks protect, and the waiting tasks of the calm phase.
#[derive(Debug, Default)]
pub struct WorkState {
    pub names: BTreeMap<Name, NameState>,
    /// How long names were without a holder in the calm phase, because they were handed off in
    /// vain.
    pub lost_handoff_time: Micros,
}

/// The resource of one name, and its waiting tasks.
#[derive(Debug, Default)]
pub struct NameState {
    pub register: Register,
    /// When the name was last released, or the earliest time at which a waiter could have it.
    pub freed: Micros,
    /// The waiting tasks: client, task, and since when.
    pub waiting: Vec<(usize, usize, Micros)>,
}

impl WorkState {
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.keys()
    }

    /// Records that no waiter could have had the name before `at`.
    pub fn free_from(&mut self, name: &Name, at: Micros) {
        self.name_state(name).freed = at;
    }

    pub fn register(&mut self, name: &Name) -> &mut Register {
        &mut self.name_state(name).register
    }

    pub fn name_state(&mut self, name: &Name) -> &mut NameState {
        self.names.entry(name.clone()).or_default()
    }
}
