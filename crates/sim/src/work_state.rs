//! What the world records about the workload.

use std::collections::BTreeMap;

use quorumlock_protocol::{Claim, Name};

use super::invariants::Register;
use super::owed::Owed;
use super::time::Micros;

/// The resources that the locks protect, and the waiting tasks of the calm phase.
#[derive(Debug, Default)]
pub struct WorkState {
    registers: BTreeMap<Name, Register>,
    /// By the name of the queue: all slots of permits have one.
    pub queues: BTreeMap<Name, QueueState>,
    /// How long names were without a holder in the calm phase, because they were handed off in
    /// vain.
    pub lost_handoff_time: Micros,
    /// The releases of the calm phase after which no waiter has asked yet.
    pub owed: Vec<Owed>,
}

/// The waiting tasks of one queue.
#[derive(Debug, Default)]
pub struct QueueState {
    /// When the name, or a slot of the permits, was last released, or the earliest time at which a
    /// waiter could have it.
    pub freed: Micros,
    /// The waiting tasks: client, task, and since when.
    pub waiting: Vec<(usize, usize, Micros)>,
}

impl WorkState {
    /// The names that somebody has held: of permits, the slots.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.registers.keys()
    }

    /// Records that no waiter could have had what is claimed before `at`.
    pub fn free_from(&mut self, claim: &Claim, at: Micros) {
        for name in claim.names() {
            self.queue(&name.queue()).freed = at;
        }
    }

    pub fn register(&mut self, name: &Name) -> &mut Register {
        self.registers.entry(name.clone()).or_default()
    }

    pub fn queue(&mut self, queue: &Name) -> &mut QueueState {
        self.queues.entry(queue.clone()).or_default()
    }
}
