//! The quarantine: when a node's yes counts.
//!
//! The library's own function judges whether a node is admitted. In the library a script that is
//! bound to the admitted incarnation then grants or refuses in one step; a node does the same here.

use std::sync::LazyLock;
use std::time::Duration;

use quorumlock_protocol::admission::members::{
    CLOCK_BOUND, MemberList, MemberRecord, NodeMemory, Note, ServerClock, Terms,
};
use quorumlock_protocol::admission::{ClusterConfig, NodeInfo, NodeStatus, classify};
use quorumlock_protocol::{Incarnation, PROTOCOL};

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
    let list = MemberList::new(["a", "b", "c"]);
    let cluster = ClusterConfig {
        prefix: "quorumlock".into(),
        members: list.clone(),
        longest: Duration::from_secs(3),
        clock_bound: CLOCK_BOUND,
        replicated: false,
    };
    let record = MemberRecord {
        label: "a".into(),
        terms: Terms { phase: 1, list: list.clone(), next: None },
        run_identity: "run/history".into(),
    };
    let note = Note { label: "a".into(), run_identity: "run/history".into(), list, since: 0 };
    // After a loss the node has no record, or a note that a client has written since.
    let memories =
        if lost { vec![(None, None), (None, Some(note))] } else { vec![(Some(record), None)] };
    let admitted = memories.into_iter().any(|(record, note)| {
        let info = NodeInfo {
            incarnation: record.as_ref().and_then(|_| Incarnation::parse(&"1".repeat(32))),
            memory: NodeMemory {
                label: "a".into(),
                run_identity: "run/history".into(),
                record,
                note,
                clock: ServerClock { server: 0, client: 0, bound: CLOCK_BOUND },
            },
            note_id: None,
            agreed_ms: Some((cluster.longest_ms(), cluster.clock_bound_ms())),
            protocol: PROTOCOL,
            outdated: None,
            role: "master".into(),
            replicas: 0,
            policy: "noeviction".into(),
            major: 7,
        };
        matches!(classify(&info, &cluster), NodeStatus::Admitted(_))
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
