//! `quorumlock-lab worker-check`: whether a program speaks the lines of a worker.

use std::fmt;
use std::time::Duration;

use quorumlock_command::{Failure, Outcome, exit, print};
use quorumlock_lab::worker::check::{Checkup, check};
use quorumlock_testbed::servers::{ServerOptions, Servers, Source};
use serde::Serialize;

/// Check that a program can be a worker of `quorumlock-lab run --worker`.
///
/// Two processes of the program take turns on a server that this command starts. The output says of
/// each line of docs/lab/WORKERS.md whether it is as it should be.
///
/// Exit status: 0 if it can, 1 if something is missing or wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command of the worker, for a shell.
    #[arg(value_name = "COMMAND")]
    command: String,

    /// Longest time for a line, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    patience: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn worker_check(args: Args) -> Outcome {
    let unreachable = |why: String| Failure::new(exit::UNREACHABLE, why);
    let servers = tokio::task::spawn_blocking(|| {
        let source = Source::discover().map_err(|none| none.to_string())?;
        Servers::start_with(&source, 1, &ServerOptions::default())
            .map_err(|error| error.to_string())
    });
    let servers = servers.await.map_err(|error| unreachable(error.to_string()))?;
    let servers = servers.map_err(unreachable)?;
    // Its memory is flushed: no server of somebody else.
    let server = servers[0].addr().ok_or_else(|| {
        Failure::usage("worker-check starts its own server: unset QUORUMLOCK_REDIS_URLS")
    })?;
    let patience = Duration::from_millis(args.patience);
    let checked = check(&args.command, server, patience).await.map_err(|error| {
        Failure::new(exit::SOFTWARE, format!("cannot start {}: {error}", args.command))
    })?;
    let sound = checked.is_sound();
    print(args.json, &Shown { sound, checked })?;
    Ok(u8::from(!sound))
}

#[derive(Serialize)]
struct Shown {
    sound: bool,
    #[serde(flatten)]
    checked: Checkup,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hello) = &self.checked.hello {
            writeln!(f, "{} {}", hello.library, hello.version)?;
        }
        for found in &self.checked.lines {
            let line = format!("{:<9} {:<12} {}", found.line, found.state, found.what);
            writeln!(f, "{}", line.trim_end())?;
        }
        f.write_str(match self.sound {
            true => "the lab can use this worker",
            false => "the lab cannot use this worker",
        })
    }
}
