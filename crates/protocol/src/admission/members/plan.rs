use std::time::Duration;

use super::entry::{Entry, Seen, entry, view};
use super::list::MemberList;
use super::note::NoteStep;
use super::record::{NodeMemory, Terms};

/// What a client of a list does next about its nodes, in any process and in no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAction {
    /// Write a note on this node.
    Note(usize),
    /// Write our list into the note on this node.
    TakeOver(usize),
    /// Copy the marks of the helpers, then admit the node with these terms. Tokens that only a bare
    /// majority accepts survive no loss of marks (PROTOCOL.md T3).
    Admit {
        /// Which node.
        node: usize,
        /// What its record says.
        terms: Terms,
        /// The nodes to ask for their marks, with
        /// [`AdmissionRpc::barrier`](crate::admission::AdmissionRpc::barrier).
        helpers: Vec<usize>,
        /// How many of them must answer.
        needed: usize,
        /// Whether no node of the list has ever had a record: the cluster is founded for the first
        /// time.
        first: bool,
    },
}

/// What a client of `list` does next, by what its nodes show; `None` does not answer. `age` is that
/// of [`note_age`](super::note_age). (PROTOCOL.md MEM3 to MEM5)
pub fn actions(
    list: &MemberList,
    nodes: &[Option<NodeMemory>],
    age: Duration,
) -> Vec<MemberAction> {
    let seen = view(list, nodes, age);
    let entry = entry(list, &seen);
    if let Entry::Barred(_) = entry {
        return Vec::new();
    }
    let first = nodes.iter().flatten().all(|memory| memory.record.is_none());
    let act = |(node, seen): (usize, &Seen<'_>)| match seen {
        Seen::Unproven(NoteStep::Write) => Some(MemberAction::Note(node)),
        Seen::Unproven(NoteStep::TakeOver) => Some(MemberAction::TakeOver(node)),
        Seen::Unproven(NoteStep::Mature) => {
            admit(node, &entry, (nodes.len(), list.quorum()), first)
        }
        _ => None,
    };
    seen.iter().enumerate().filter_map(act).collect()
}

fn admit(
    node: usize,
    entry: &Entry,
    (nodes, quorum): (usize, usize),
    first: bool,
) -> Option<MemberAction> {
    let (terms, helpers, needed) = match entry {
        Entry::BackIn { terms, voters } => (terms, voters.clone(), quorum),
        // All nodes answer: the marks that any of them still has are copied.
        Entry::Found(terms) => {
            (terms, (0..nodes).filter(|other| *other != node).collect(), nodes - 1)
        }
        Entry::Waits(_) | Entry::Barred(_) => return None,
    };
    Some(MemberAction::Admit { node, terms: terms.clone(), helpers, needed, first })
}
