//! The command `quorumlock`: run a command under a distributed lock, and look after locks and nodes.

mod args;
mod compare;
mod doctor;
mod exit;
mod init;
mod lab;
mod nodes;
mod output;
mod run;
mod status;
mod unlock;

use std::process::ExitCode;

use clap::Parser as _;

use self::args::{Cli, Command};
use self::output::say;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way, too. Nobody is left to tell if this fails.
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(args).await,
        Command::Status(args) => status::status(args).await,
        Command::Unlock(args) => unlock::unlock(args).await,
        Command::Doctor(args) => doctor::doctor(args).await,
        Command::Init(args) => init::init(args).await,
        Command::Compare(args) => compare::compare(args).await,
        Command::Lab(args) => lab::lab(args).await,
    };
    outcome
        .unwrap_or_else(|failure| {
            say(&failure.message);
            failure.code
        })
        .into()
}
