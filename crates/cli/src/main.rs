//! The command `quorumlock`: runs a command under a distributed lock, and inspects locks and nodes.

mod args;
mod cluster;
mod doctor;
mod init;
mod members;
mod nodes;
mod permits;
mod read_write;
mod run;
mod servers;
mod status;
mod text;
mod top;
mod unlock;

use std::process::ExitCode;

use clap::CommandFactory as _;
use quorumlock_command::{completions, exit_code, man, parse};

use self::args::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli: Cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(args).await,
        Command::Lead(args) => run::lead::lead(args).await,
        Command::Status(args) => status::status(args).await,
        Command::Unlock(args) => unlock::unlock(args).await,
        Command::Doctor(args) => doctor::doctor(args).await,
        Command::Top(args) => top::top(args).await,
        Command::Init(args) => init::init(args).await,
        Command::Members(args) => members::members(args).await,
        Command::Completions(args) => completions(&args, Cli::command()),
        Command::Man(args) => man(&args, Cli::command()),
        Command::Exec(args) => run::exec::exec(&args),
    };
    exit_code(outcome)
}
