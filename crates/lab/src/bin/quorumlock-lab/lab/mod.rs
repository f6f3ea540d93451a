//! `quorumlock-lab lab`: injects faults into servers and lockers, and judges what happens.

mod compare;
mod interrupt;
mod list;
mod progress;
mod replay;
mod run;
mod table;

use clap::Subcommand;
use quorumlock_command::Outcome;

pub(crate) use self::interrupt::Interrupt;
pub(crate) use self::run::{cannot_write, carry_out};
pub(crate) use self::table::{Cell, cells};

/// Inject faults into servers and lockers, and judge how each mode copes.
///
/// Scenarios run on servers and locker processes that this command starts. Every result is judged
/// from the events that the lockers and the resource recorded.
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
}

pub(crate) async fn lab(args: Args) -> Outcome {
    match args.command {
        Command::List(args) => list::list(&args),
        Command::Run(args) => run::run(args).await,
        Command::Replay(args) => replay::replay(args).await,
        Command::Compare(args) => compare::compare(&args),
    }
}
