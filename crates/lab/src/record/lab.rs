use serde::{Deserialize, Serialize};

use super::Run;

/// One invocation of the lab: what was asked for, where, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lab {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// As it was typed.
    pub command_line: Vec<String>,
    /// Decides every number that a run draws.
    pub seed: u64,
    /// Ended by a signal before all runs were done.
    pub interrupted: bool,
    /// The machine and the programs.
    pub environment: Environment,
    /// In the order in which they were carried out.
    pub runs: Vec<Run>,
}

/// Where runs were carried out, and with what. What could not be found out is empty, zero or absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Our version.
    pub quorumlock: String,
    /// The commit that was built, if known.
    pub commit: Option<String>,
    /// Whether the tree that was built differed from the commit.
    pub dirty: Option<bool>,
    /// `release` or `debug`.
    pub build: String,
    /// The compiler, if known.
    pub rustc: Option<String>,
    /// The operating system's kernel.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// How many processors we may use.
    pub cpus: usize,
    /// The machine's memory.
    pub memory_bytes: u64,
    /// The load over 1, 5 and 15 minutes before the first run.
    pub load_before: [f64; 3],
    /// The server program.
    pub server: String,
    /// What the kernel makes its clock of.
    pub clocksource: Option<String>,
}
