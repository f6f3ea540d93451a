//! What happened in a run: events, one JSON object a line, in the order of their arrival.
//!
//! The holders stamp what they see themselves, on a clock that all processes of the host share.
//! Whoever judges needs nothing but this file.

mod event;
mod reader;
mod writer;

pub use self::event::{Event, Op, Phase, SCHEMA};
pub use self::reader::{BadHistory, Reader};
pub use self::writer::Writer;
