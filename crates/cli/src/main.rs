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
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use quorumlock_protocol::without_password;

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
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            let text = without_passwords(&error.render().to_string());
            let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
            if json {
                let _ = output::print(true, &Failure::usage(text.trim()));
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
        Command::Exec(args) => run::exec::exec(&args),
    };
    outcome
        .unwrap_or_else(|failure| {
            fail(json, &failure);
            failure.code
        })
        .into()
}

/// clap shows the word that it does not take, and that may be a URL.
fn without_passwords(text: &str) -> String {
    let redacted = |word: &str| match word.contains('@') {
        true => without_password(word.trim_start_matches('\'')),
        false => word.to_owned(),
    };
    let words: Vec<_> = text.split(' ').map(redacted).collect();
    words.join(" ")
}

/// Reads the words themselves, since arguments that clap cannot parse may ask for JSON, too. The
/// words after `--` belong to the command that `run` starts.
fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}
