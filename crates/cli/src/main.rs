//! The command `quorumlock`: runs a command under a distributed lock, and inspects locks and nodes.

mod args;
mod cluster;
mod doctor;
mod init;
mod list;
mod log;
mod members;
mod nodes;
mod options;
mod permits;
mod read_write;
mod run;
mod servers;
mod status;
mod text;
mod top;
mod trial;
mod unlock;

use std::process::ExitCode;

use clap::CommandFactory as _;
use quorumlock_command::{Failure, Outcome, completions, exit, exit_code, man, parse};
use tokio::runtime::Runtime;

use self::args::{Cli, Command};

fn main() -> ExitCode {
    let cli: Cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(e) => {
            let why = format!("cannot start threads: {e}");
            return exit_code(Err(Failure::new(exit::SOFTWARE, why)));
        }
    };
    let code = exit_code(runtime.block_on(carry_out(cli.command)));
    // Dropping it would wait for a name server that does not answer.
    runtime.shutdown_background();
    code
}

async fn carry_out(command: Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(args).await,
        Command::Lead(args) => run::lead::lead(args).await,
        Command::Status(args) => status::status(args).await,
        Command::List(args) => list::list(args).await,
        Command::Unlock(args) => unlock::unlock(args).await,
        Command::Doctor(args) => doctor::doctor(args).await,
        Command::Top(args) => top::top(args).await,
        Command::Init(args) => init::init(args).await,
        Command::Members(args) => members::members(args).await,
        Command::Completions(args) => completions(&args, Cli::command()),
        Command::Man(args) => man(&args, Cli::command()),
        Command::Exec(args) => run::exec::exec(&args),
    }
}
