use std::process::{Command, Output};

use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use serde_json::Value;

/// Servers for a test, or `None` on a machine without a server program.
pub(crate) fn servers(count: usize) -> Option<Servers> {
    for_test(count, &ServerOptions::default())
}

/// `quorumlock-lab SUBCOMMAND ARGUMENTS`.
pub(crate) fn command(subcommand: &str, arguments: &[&str]) -> Command {
    // A test in the background ignores signals, and its children would inherit that.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_quorumlock-lab"), subcommand]);
    command.args(arguments);
    command
}

/// Runs the command to its end.
pub(crate) fn finish(mut command: Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The result of a process.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that its message on stderr contains all these parts.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:#?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}
