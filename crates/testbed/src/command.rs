//! Runs commands to their end, for tests of commands.

use std::process::{Command, Output};

use serde_json::Value;

/// A command that runs this program. The program gets the default actions of all signals: a shell
/// that runs the tests in the background makes them and their children ignore some.
#[must_use]
pub fn command(program: &str) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal", program]);
    command
}

/// Runs the command to its end.
///
/// # Panics
/// If it cannot be started, or prints what is not UTF-8.
#[must_use]
pub fn finish(mut command: Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().expect("a program");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// How a command ended. Its methods panic with all of it if it is not as a test expects.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

impl Finished {
    /// Asserts that the command ended with this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that its messages on stderr have all these parts.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:#?}");
        }
        self
    }

    /// The JSON document on stdout.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}
