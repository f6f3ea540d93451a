//! When a node's yes counts: the quarantine, in one place.
//!
//! Whether a node is admitted is the library's own judgement; in the library a script that is bound
//! to the admitted life of its server then grants or refuses in one step, and so does a node here.

use std::sync::LazyLock;
use std::time::Duration;

use quorumlock_core::admission::{Charter, Record, Sheet, Standing, judge};

/// What a yes of a node is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A free key was taken by an acquisition.
    Grant,
    /// A key was still there, and was lengthened.
    Extension,
    /// A key was missing at a renewal, and was written again.
    Recreation,
}

/// Whose yes counts after a node has lost its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quarantine {
    /// Everybody's, at once: plain Redlock without delayed restarts.
    None,
    /// Nobody's, for L.
    Strict,
    /// Planted, M9: no grant's; an extension's does.
    GrantsOnly,
    /// Planted, M11: only that of a key written again does.
    SparesRecreation,
}

/// What a node knows of its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It has kept everything since its admission.
    Admitted,
    /// It lost its data, and has not been watched for L since.
    Unproven,
}

/// What a node whose data were lost, or were not, is worth.
pub fn memory(lost: bool) -> Memory {
    // Judged once: the search asks millions of times.
    static WORTH: LazyLock<[Memory; 2]> = LazyLock::new(|| [judged(false), judged(true)]);
    WORTH[usize::from(lost)]
}

fn judged(lost: bool) -> Memory {
    let charter = Charter {
        prefix: "quorumlock".into(),
        cluster: "model".into(),
        epoch: 1,
        nodes: 3,
        longest: Duration::from_secs(3),
    };
    let record = Record {
        cluster: charter.cluster.clone(),
        epoch: charter.epoch,
        nodes: charter.nodes,
        longest_ms: charter.longest_ms(),
        ..Record::default()
    };
    let kept = Record { life: "run/history".into(), stamp: "1".repeat(32), ..record.clone() };
    let watched = Record { pending: "run/history/mark".into(), ..record };
    // After a loss: nothing is left, or a mark that somebody has written since.
    let records = if lost { vec![None, Some(watched)] } else { vec![Some(kept)] };
    let admitted = records.into_iter().any(|record| {
        let sheet = Sheet {
            record,
            life: "run/history".into(),
            role: "master".into(),
            policy: "noeviction".into(),
            major: 7,
            ..Sheet::default()
        };
        matches!(judge(&sheet, &charter), Standing::Admitted(_))
    });
    if admitted { Memory::Admitted } else { Memory::Unproven }
}

/// Whether the node's yes counts.
pub fn counts(quarantine: Quarantine, memory: Memory, deed: Deed) -> bool {
    match (memory, quarantine) {
        (Memory::Admitted, _) | (_, Quarantine::None) => true,
        (_, Quarantine::Strict) => false,
        (_, Quarantine::GrantsOnly) => deed == Deed::Extension,
        (_, Quarantine::SparesRecreation) => deed == Deed::Recreation,
    }
}
