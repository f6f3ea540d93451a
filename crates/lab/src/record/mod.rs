//! What is kept of a run (`run.json`) and of an invocation of the lab (`lab.json`).

mod lab;
mod run;

pub use self::lab::{Environment, Lab};
pub use self::run::{Expected, NodeFacts, Observed, Run};

/// The version of both files.
pub const SCHEMA: u32 = 1;
