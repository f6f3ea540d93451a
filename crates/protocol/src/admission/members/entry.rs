use std::time::Duration;

use super::list::MemberList;
use super::note::{NoteStep, note_step};
use super::record::{Membership, NodeMemory, Terms, membership};

/// What a client of a list knows about one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// It votes, by these terms.
    Votes(&'a Terms),
    /// It belongs to a cluster of other lists.
    Foreign(&'a Terms),
    /// It has no record.
    Unproven(NoteStep),
    /// It does not answer.
    Silent,
}

/// Whether the nodes of a list with mature notes are admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Admit them with these terms, those of the newest record that a majority of the list votes
    /// by, after copying the marks of these nodes.
    BackIn {
        /// What the record says.
        terms: Terms,
        /// The nodes that vote.
        voters: Vec<usize>,
    },
    /// There is no majority, and none can have a lease: found the cluster with these terms.
    Found(Terms),
    /// There is no majority, and these nodes must come or mature before the cluster is founded.
    Waits(Vec<usize>),
    /// A node belongs to a cluster of other lists: nobody is admitted.
    Barred(Terms),
}

/// What a client of `list` knows of its nodes; `None` does not answer. `age` is that of
/// [`note_age`](super::note_age).
pub fn view<'a>(
    list: &MemberList,
    nodes: &'a [Option<NodeMemory>],
    age: Duration,
) -> Vec<Seen<'a>> {
    let membership_of = |node: &'a Option<NodeMemory>| Some(membership(node.as_ref()?, list));
    let votes =
        |node: &&'a Option<NodeMemory>| matches!(membership_of(node), Some(Membership::Votes(_)));
    let majority = nodes.iter().filter(votes).count() >= list.quorum();
    let seen = |node: &'a Option<NodeMemory>| {
        let Some(memory) = node else { return Seen::Silent };
        match membership(memory, list) {
            Membership::Votes(terms) => Seen::Votes(terms),
            Membership::Foreign(terms) => Seen::Foreign(terms),
            Membership::Unproven(note) => {
                Seen::Unproven(note_step(note, &memory.label, list, majority, memory.clock, age))
            }
        }
    };
    nodes.iter().map(seen).collect()
}

/// What a client of `list` does with nodes whose notes are mature (PROTOCOL.md MEM4, MEM5). `nodes`
/// are all nodes of the list.
pub fn entry(list: &MemberList, nodes: &[Seen<'_>]) -> Entry {
    let foreign = nodes.iter().find_map(|seen| match seen {
        Seen::Foreign(terms) => Some((*terms).clone()),
        _ => None,
    });
    if let Some(terms) = foreign {
        return Entry::Barred(terms);
    }
    let votes = |seen: &Seen<'_>| matches!(seen, Seen::Votes(_));
    let voters: Vec<usize> = (0..nodes.len()).filter(|node| votes(&nodes[*node])).collect();
    let terms = nodes.iter().filter_map(|seen| match seen {
        Seen::Votes(terms) => Some(*terms),
        _ => None,
    });
    let newest = terms.max_by_key(|terms| terms.phase);
    if let Some(terms) = newest.filter(|_| voters.len() >= list.quorum()) {
        return Entry::BackIn { terms: terms.clone(), voters };
    }
    let ready = |seen: &Seen<'_>| match seen {
        Seen::Unproven(NoteStep::Mature) => true,
        Seen::Votes(terms) => terms.admit_only(list),
        _ => false,
    };
    let missing: Vec<usize> = (0..nodes.len()).filter(|node| !ready(&nodes[*node])).collect();
    if missing.is_empty() && nodes.len() == list.labels().len() {
        let phase = newest.map_or(1, |terms| terms.phase);
        return Entry::Found(Terms { phase, list: list.clone(), next: None });
    }
    Entry::Waits(missing)
}
