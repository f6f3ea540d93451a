use serde::Serialize;

use crate::record::Run;
use crate::scenario::Plan;

/// The file of a run: its record, and the whole plan as it was carried out.
#[derive(Debug, Serialize)]
pub(super) struct RunFile<'a> {
    #[serde(flatten)]
    pub(super) run: &'a Run,
    /// Whether the run was a short one.
    pub(super) quick: bool,
    /// Servers, leases, clients and their work, steps, bounds.
    pub(super) plan: &'a Plan,
    pub(super) timeouts: Timeouts,
}

/// How long a run waits, in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Timeouts {
    /// For all workers to be ready.
    pub(super) ready_ms: u64,
    /// For the event of a step.
    pub(super) step_ms: u64,
    /// For a worker to end after the order.
    pub(super) end_ms: u64,
}
