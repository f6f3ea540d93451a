//! `quorumlock lab`: break servers and lockers on purpose, and judge what happened.

mod compare;
mod interrupt;
mod list;
mod progress;
mod replay;
pub(crate) mod report;
mod run;
mod table;

use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::{self, Failure, Outcome};

/// Break servers and lockers on purpose, and see what each mode makes of it.
///
/// Scenarios run on servers and locker processes that are started for them, and every claim is
/// judged from what the lockers and the resource themselves recorded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    /// A locker process of a run.
    #[command(hide = true)]
    Worker,
}

pub(crate) async fn lab(args: Args) -> Outcome {
    match args.command {
        Command::List(args) => list::list(&args),
        Command::Run(args) => run::run(args).await,
        Command::Replay(args) => replay::replay(args).await,
        Command::Compare(args) => compare::compare(&args),
        Command::Report(args) => report::report(&args),
        Command::Worker => worker().await,
    }
}

/// The worker has a runtime of its own, which must not be inside ours.
async fn worker() -> Outcome {
    let ended =
        tokio::task::spawn_blocking(|| std::thread::spawn(quorumlock_lab::worker::main).join())
            .await;
    match ended {
        Ok(Ok(code)) if code == ExitCode::SUCCESS => Ok(0),
        _ => Err(Failure::new(exit::SOFTWARE, "the worker failed")),
    }
}
