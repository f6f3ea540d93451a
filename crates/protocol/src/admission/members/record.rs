use std::sync::Arc;

use super::clock::ServerClock;
use super::list::MemberList;

/// The lists whose clients a node votes for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Grows by one at each step of a change.
    pub phase: u64,
    /// The list.
    pub list: MemberList,
    /// The list that the operator changes to. During the change the node votes for the clients of
    /// both.
    pub next: Option<MemberList>,
}

impl Terms {
    /// Whether a node with these terms votes for clients of `list`.
    pub fn admit(&self, list: &MemberList) -> bool {
        self.list == *list || self.next.as_ref() == Some(list)
    }

    /// Whether these terms admit the clients of `list` and no others.
    #[doc(hidden)]
    pub fn admit_only(&self, list: &MemberList) -> bool {
        self.list == *list && self.next.is_none()
    }
}

/// What a node keeps about the cluster that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberRecord {
    /// The node's label, as the client that admitted it knows it.
    pub label: Arc<str>,
    /// The lists that the node votes for.
    pub terms: Terms,
    /// The run identity of the admitted server.
    pub run_identity: Arc<str>,
}

/// A note on a node without a record of its present run: since when clients have known of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The node's label, as the client that wrote the note knows it. A cloned virtual machine keeps
    /// its run identity, and is another node (PROTOCOL.md MEM3).
    pub label: Arc<str>,
    /// The run identity of the server.
    pub run_identity: Arc<str>,
    /// The list of the client that wrote the note.
    pub list: MemberList,
    /// The server's own time when the note was written, in microseconds.
    pub since: i64,
}

/// What one node shows to a client, read at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeMemory {
    /// Its label, as the client knows it.
    pub label: Arc<str>,
    /// Its present run identity.
    pub run_identity: Arc<str>,
    /// Its record, of whichever run.
    pub record: Option<MemberRecord>,
    /// Its note, of whichever run.
    pub note: Option<Note>,
    /// Its time, and the client's.
    pub clock: ServerClock,
}

/// What a node is for the clients of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership<'a> {
    /// It votes.
    Votes(&'a Terms),
    /// It belongs to a cluster of other lists. It bars the client: no vote of any node counts, so
    /// that foreign nodes and some of our nodes make no majority.
    Foreign(&'a Terms),
    /// It has no record of its present run, and perhaps a note of it.
    Unproven(Option<&'a Note>),
}

/// What a node is for the clients of `list` (PROTOCOL.md MEM2).
pub fn membership<'a>(node: &'a NodeMemory, list: &MemberList) -> Membership<'a> {
    let record = node.record.as_ref().filter(|record| record.run_identity == node.run_identity);
    let note = node.note.as_ref();
    match record {
        // Whatever its label: clients of the other list may know the server by another address.
        Some(record) if !record.terms.admit(list) => Membership::Foreign(&record.terms),
        Some(record) if record.label == node.label => Membership::Votes(&record.terms),
        // No record, or that of another node of our list, from which the server was cloned.
        _ => Membership::Unproven(note.filter(|note| note.run_identity == node.run_identity)),
    }
}
