use std::process::Command;

pub(crate) use quorumlock_testbed::command::{Finished, finish};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};

/// Servers for a test, or `None` on a machine without a server program.
pub(crate) fn servers(count: usize) -> Option<Servers> {
    for_test(count, &ServerOptions::default())
}

/// `quorumlock-lab SUBCOMMAND ARGUMENTS`.
pub(crate) fn command(subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = quorumlock_testbed::command::command(env!("CARGO_BIN_EXE_quorumlock-lab"));
    command.arg(subcommand).args(arguments);
    command
}
