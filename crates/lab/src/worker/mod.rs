//! The locker as a process of its own, which can be stopped, killed and cut off like any other.
//!
//! It reads a [`Config`] and then [`Order`]s from its standard input, one JSON text a line, and writes
//! the events that it sees to its standard output. It ends when its input does, so that it does not
//! outlive whoever started it.

mod breach;
mod broken;
mod config;
mod job;
mod tell;

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::ExitCode;

use tokio::sync::watch;

pub(crate) use self::breach::locker;
pub use self::config::{Config, Order};
use self::job::Shared;

/// The worker's life. For the hidden command of the command line, and for tests' programs.
///
/// Blocks the calling thread; must not be called inside a runtime.
#[must_use]
pub fn main() -> ExitCode {
    match live() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "quorumlock lab worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn live() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = BufReader::new(io::stdin()).lines();
    let config: Config = serde_json::from_str(&lines.next().ok_or("no configuration")??)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (ordered, orders) = watch::channel(None);
    // Blocking reads, on a thread that the runtime does not wait for.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Ok(order) = serde_json::from_str(&line) {
                ordered.send_replace(Some(order));
            }
        }
        // Whoever started us is gone: nobody hears us any more, and nothing is to be given back.
        std::process::exit(0);
    });
    runtime.block_on(async {
        let shared = Shared::new(config)?;
        shared.work(orders).await;
        Ok(())
    })
}
