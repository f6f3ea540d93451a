//! The command `quorumlock-lab`: compares modes, injects faults, writes reports.

mod compare;
mod exit;
mod lab;
mod output;
mod pages;
mod report;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use self::exit::{Failure, Outcome};
use self::output::fail;

/// Experiments with the distributed locks of quorumlock, on servers that it starts itself.
#[derive(Debug, Parser)]
#[command(name = "quorumlock-lab", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Args),
    Lab(lab::Args),
    Report(report::Args),
    Completions(pages::CompletionsArgs),
    Man(pages::ManArgs),
    /// Run as a locker process of a run.
    #[command(hide = true)]
    Worker,
}

const EXIT_CODES: &str = "\
Exit codes:
   1  something is not as theory says
  64  bad usage: fix the command line
  69  no server program is found, or a server does not answer
  74  the result cannot be written
 130  interrupted; what was recorded is kept";

/// The worker makes its own runtime, so only the other commands start one here.
fn main() -> ExitCode {
    let json = asks_for_json(std::env::args_os());
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(json, &error),
    };
    if let Command::Worker = cli.command {
        return quorumlock_lab::worker::main();
    }
    let outcome = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run(cli.command)),
        Err(error) => Err(Failure::new(exit::SOFTWARE, format!("cannot start threads: {error}"))),
    };
    outcome
        .unwrap_or_else(|failure| {
            fail(json, &failure);
            failure.code
        })
        .into()
}

async fn run(command: Command) -> Outcome {
    match command {
        Command::Compare(args) => compare::compare(args).await,
        Command::Lab(args) => lab::lab(args).await,
        Command::Report(args) => report::report(&args),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
        Command::Worker => Ok(0),
    }
}

/// Also prints help and version, which clap returns as errors. A failure to print cannot be
/// reported.
fn refused(json: bool, error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if json {
        let _ = output::print(true, &Failure::usage(error.render().to_string().trim()));
    }
    exit::USAGE.into()
}

/// Searches the raw arguments, because a command line that does not parse may contain `--json` too.
fn asks_for_json(mut words: impl Iterator<Item = OsString>) -> bool {
    words.any(|word| word == "--json")
}
