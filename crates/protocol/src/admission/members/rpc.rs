use std::time::Duration;

use super::record::{NodeMemory, Terms};
use crate::admission::Marks;
use crate::{BoxFuture, Incarnation, NodeReport};

/// What a server says about itself as a member, read in one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// What the rules judge.
    pub memory: NodeMemory,
    /// The incarnation of its record, if it has one of the present run.
    pub incarnation: Option<Incarnation>,
    /// The id of its note: [`NoteRequest::instead_of`] and [`MemberRpc::admit_member`] name it.
    pub note_id: Option<String>,
}

/// A note to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRequest {
    /// The list of the client.
    pub list: super::list::MemberList,
    /// A fresh id.
    pub id: String,
    /// The id of the note that is taken over; without, a note is written if there is none.
    pub instead_of: Option<String>,
}

/// A node whose membership clients examine and write.
pub trait MemberRpc: Send + Sync {
    /// Reads what the node shows.
    fn member_info(&self) -> BoxFuture<Result<MemberInfo, NodeReport>>;
    /// Writes a note with the server's time, or takes one over; false if the note or the run is
    /// another, the run is admitted, or the clocks differ (PROTOCOL.md MEM3, MEM4).
    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>>;
    /// Raises the marks and admits the run under the note; false if the note or the run is another,
    /// the clocks differ, or the note is younger than `age` (PROTOCOL.md MEM3 to MEM5).
    fn admit_member(
        &self,
        note_id: &str,
        terms: &Terms,
        stamp: &str,
        age: Duration,
        marks: &Marks,
    ) -> BoxFuture<Result<bool, NodeReport>>;
    /// Writes the next phase over the record with this incarnation; false if it is another
    /// (PROTOCOL.md MEM6).
    fn write_phase(
        &self,
        found: Incarnation,
        terms: &Terms,
        stamp: &str,
    ) -> BoxFuture<Result<bool, NodeReport>>;
}
