//! The command `quorumlock-lab`: compares modes, injects faults, writes reports.

mod compare;
mod interrupt;
mod list;
mod output;
mod own;
mod progress;
mod replay;
mod report;
mod resume;
mod run;
mod table;
mod worker_check;
mod workers;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use quorumlock_command::{
    CompletionsArgs, Failure, ManArgs, Outcome, completions, exit, exit_code, man, parse,
};

/// Experiments with the distributed locks of quorumlock, on servers that it starts itself.
#[derive(Debug, Parser)]
#[command(name = "quorumlock-lab", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Run(run::Args),
    Replay(replay::Args),
    Compare(compare::Args),
    Report(report::Args),
    WorkerCheck(worker_check::Args),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Run as a worker, by the lines of docs/lab/WORKERS.md.
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
    let cli: Cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Command::Worker = cli.command {
        return quorumlock_lab::worker::main();
    }
    let outcome = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(carry_out(cli.command)),
        Err(error) => Err(Failure::new(exit::SOFTWARE, format!("cannot start threads: {error}"))),
    };
    exit_code(outcome)
}

async fn carry_out(command: Command) -> Outcome {
    match command {
        Command::List(args) => list::list(&args),
        Command::Run(args) => run::run(args).await,
        Command::Replay(args) => replay::replay(args).await,
        Command::Compare(args) => compare::compare(args).await,
        Command::Report(args) => report::report(&args),
        Command::WorkerCheck(args) => worker_check::worker_check(args).await,
        Command::Completions(args) => completions(&args, Cli::command()),
        Command::Man(args) => man(&args, Cli::command()),
        Command::Worker => Ok(0),
    }
}
