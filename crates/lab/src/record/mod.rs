//! The records of a run (`run.json`, `attempts.csv`) and of an invocation of the lab (`lab.json`).

mod agreement;
mod attempt;
mod lab;
mod load;
mod run;
#[cfg(test)]
pub(crate) mod sample;

use std::io;
use std::path::Path;

use serde::Serialize;

pub use self::agreement::agrees;
pub use self::attempt::{Attempt, read_attempts, write_attempts};
pub use self::lab::{Environment, Lab, Skipped};
pub use self::load::Load;
pub use self::run::{Expected, LibraryFacts, NodeFacts, Observed, Run};

/// The format version of both files.
pub const SCHEMA: u32 = 1;

/// Writes a [`Run`] or a [`Lab`] as indented JSON.
///
/// # Errors
/// The [`io::Error`] of the system.
pub fn write(path: &Path, record: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    std::fs::write(path, text)
}
