//! The command `quorumlock`: runs a command under a distributed lock, and inspects locks and nodes.

mod args;
mod cluster;
mod doctor;
mod exit;
mod init;
mod members;
mod nodes;
mod output;
mod pages;
mod run;
mod status;
mod text;
mod unlock;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::args::{Cli, Command};
use self::exit::Failure;
use self::output::fail;

#[tokio::main]
async fn main() -> ExitCode {
    let json = asks_for_json(std::env::args_os());
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way, too. If printing fails, no output is left to report
            // that on.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            if json {
                let _ = output::print(true, &Failure::usage(error.render().to_string().trim()));
            }
            return exit::USAGE.into();
        }
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(args).await,
        Command::Status(args) => status::status(args).await,
        Command::Unlock(args) => unlock::unlock(args).await,
        Command::Doctor(args) => doctor::doctor(args).await,
        Command::Init(args) => init::init(args).await,
        Command::Members(args) => members::members(args).await,
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
    };
    outcome
        .unwrap_or_else(|failure| {
            fail(json, &failure);
            failure.code
        })
        .into()
}

/// Reads the words themselves, since arguments that clap cannot parse may ask for JSON, too. The
/// words after `--` belong to the command that `run` starts.
fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}
