use serde::{Deserialize, Serialize};

use super::Run;

/// One invocation of the lab: its arguments, its environment, its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lab {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// The command line as typed.
    pub command_line: Vec<String>,
    /// The command lines that added runs later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Vec<String>>,
    /// Determines every random number of the runs.
    pub seed: u64,
    /// A signal ended the lab before all runs were done.
    pub interrupted: bool,
    /// The machine and the programs.
    pub environment: Environment,
    /// The runs, in the order in which they were carried out.
    pub runs: Vec<Run>,
    /// The runs that could not be carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

/// Runs of a scenario in a mode that could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The scenario's id.
    pub scenario: String,
    /// The mode, as a run has it.
    pub mode: String,
    /// What is missing.
    pub why: String,
}

impl Lab {
    /// An invocation that has no runs yet.
    #[must_use]
    pub fn new(seed: u64, command_line: Vec<String>, environment: Environment) -> Self {
        Self {
            schema: super::SCHEMA,
            command_line,
            resumed: Vec::new(),
            seed,
            interrupted: false,
            environment,
            runs: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Adds a run. The first one that knows its servers says which they are.
    pub fn add(&mut self, run: Run) {
        if let Some(node) = run.nodes.first().filter(|_| self.environment.server.is_empty()) {
            self.environment.server.clone_from(&node.version);
        }
        self.interrupted |= run.interrupted;
        self.runs.push(run);
    }

    /// Adds what could not be carried out, once for all repetitions.
    pub fn skip(&mut self, skipped: Skipped) {
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }
}

/// Where the runs were carried out, and with what. Unknown values are empty, zero or absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of quorumlock.
    pub quorumlock: String,
    /// The commit that was built, if known.
    pub commit: Option<String>,
    /// Whether the tree that was built differed from the commit.
    pub dirty: Option<bool>,
    /// If it differed: the hash of all differences, new files included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// `release` or `debug`.
    pub build: String,
    /// The compiler, if known.
    pub rustc: Option<String>,
    /// The operating system's kernel.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// The number of processors that this process may use.
    pub cpus: usize,
    /// The machine's memory.
    pub memory_bytes: u64,
    /// The load over 1, 5 and 15 minutes before the first run.
    pub load_before: [f64; 3],
    /// The server program and its version.
    pub server: String,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
}

impl Environment {
    /// The program, in words: its version, its commit, what differs from the commit, its build.
    #[must_use]
    pub fn program(&self) -> String {
        let Self { quorumlock, commit, dirty, diff, build, .. } = self;
        let commit = commit.as_ref().map(|commit| format!(", commit {commit}"));
        let changes = match (dirty, diff) {
            (Some(true), Some(diff)) => format!(" with changes {diff}"),
            (Some(true), None) => " with changes".to_owned(),
            _ => String::new(),
        };
        format!("quorumlock {quorumlock}{}{changes}, {build} build", commit.unwrap_or_default())
    }
}
