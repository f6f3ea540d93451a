//! Which servers belong to a cluster, and how they come back (PROTOCOL.md, Members).
//!
//! A cluster is a [`MemberList`]. Each node keeps a [`MemberRecord`] with the lists whose clients it
//! votes for, and a number, the phase. A node without a record of its present run carries a
//! [`Note`] with its own time, and is admitted once the note is mature: a process that reads the
//! note need not have written it, so short processes are enough. The functions are pure:
//! - [`membership`]: what a node is for the clients of one list.
//! - [`note_step`]: when a note is written, and when it is mature.
//! - [`view`], [`entry`]: who is admitted, with which record.
//! - [`change_step`], [`ChangeStep::limited_to`], [`may_follow`]: how an operator changes the list.
//!
//! The model searches exactly these functions.

mod change;
mod client_name;
mod clock;
mod entry;
mod list;
mod note;
mod plan;
mod record;

pub use change::{
    ChangeRefused, ChangeStep, Until, change_step, confirmers, may_follow, next_terms,
};
pub use client_name::ClientName;
pub use clock::{CLOCK_BOUND, ServerClock};
pub use entry::{Entry, Seen, entry, view};
pub use list::MemberList;
pub use note::{NoteStep, note_age, note_step};
pub use plan::{MemberAction, actions};
pub use record::{MemberRecord, Membership, NodeMemory, Note, Terms, membership};

#[cfg(test)]
mod tests;
