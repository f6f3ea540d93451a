//! The history of a run: events, one JSON object per line, in the order in which the recorder
//! received them.
//!
//! Holders timestamp their own events, on a clock that all processes of the host share. The judges
//! need only this file.

mod event;
mod reader;
mod refusal;
mod writer;

pub use self::event::{Event, Op, Phase, SCHEMA, SLOT, TOGETHER};
pub use self::reader::{BadHistory, Reader};
pub use self::refusal::Refusal;
pub use self::writer::Writer;
