//! The quarantine: when a node's yes counts.
//!
//! The library's own function judges whether a node is admitted. In the library a script that is
//! bound to the admitted incarnation then grants or refuses in one step; a node does the same here.

use std::sync::LazyLock;
use std::time::Duration;

use quorumlock_protocol::admission::{
    AdmissionRecord, ClusterConfig, NodeInfo, NodeStatus, classify,
};

/// The request that a node says yes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// An acquisition took a free key.
    Grant,
    /// A renewal lengthened an existing key.
    Extension,
    /// A renewal wrote a missing key again.
    Regrant,
}

/// Whose yes counts after a node has lost its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quarantine {
    /// Every yes, at once: plain Redlock without delayed restarts.
    None,
    /// No yes, for L.
    Strict,
    /// Planted, M9: only the yes to an extension of an existing key counts.
    GrantsOnly,
    /// Planted, M11 (ADM4): only the yes to a key that is written again counts.
    SparesRegrant,
}

/// The state of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The node has kept everything since its admission.
    Admitted,
    /// The node lost its data, and no client has watched it for L since then.
    Unproven,
}

/// The memory of a node that has lost its data (`lost`) or has not.
pub fn memory(lost: bool) -> Memory {
    // Computed once: a search calls this millions of times.
    static WORTH: LazyLock<[Memory; 2]> = LazyLock::new(|| [judged(false), judged(true)]);
    WORTH[usize::from(lost)]
}

fn judged(lost: bool) -> Memory {
    let charter = ClusterConfig {
        prefix: "quorumlock".into(),
        cluster: "model".into(),
        epoch: 1,
        nodes: 3,
        longest: Duration::from_secs(3),
    };
    let record = AdmissionRecord {
        cluster: charter.cluster.clone(),
        epoch: charter.epoch,
        nodes: charter.nodes,
        longest_ms: charter.longest_ms(),
        ..AdmissionRecord::default()
    };
    let kept =
        AdmissionRecord { life: "run/history".into(), stamp: "1".repeat(32), ..record.clone() };
    let watched = AdmissionRecord { pending: "run/history/mark".into(), ..record };
    // After a loss the node has no admission record, or a quarantine note that a client has written
    // since.
    let records = if lost { vec![None, Some(watched)] } else { vec![Some(kept)] };
    let admitted = records.into_iter().any(|record| {
        let sheet = NodeInfo {
            record,
            run_identity: "run/history".into(),
            role: "master".into(),
            policy: "noeviction".into(),
            major: 7,
            ..NodeInfo::default()
        };
        matches!(classify(&sheet, &charter), NodeStatus::Admitted(_))
    });
    if admitted { Memory::Admitted } else { Memory::Unproven }
}

/// Whether the node's yes counts.
pub fn counts(quarantine: Quarantine, memory: Memory, deed: Deed) -> bool {
    match (memory, quarantine) {
        (Memory::Admitted, _) | (_, Quarantine::None) => true,
        (_, Quarantine::Strict) => false,
        (_, Quarantine::GrantsOnly) => deed == Deed::Extension,
        (_, Quarantine::SparesRegrant) => deed == Deed::Regrant,
    }
}
