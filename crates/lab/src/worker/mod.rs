//! The locker as a separate process, which can be stopped, killed and partitioned.
//!
//! It reads a [`Config`] and then [`Order`]s from its standard input, one JSON text per line, and
//! writes its events to its standard output. It exits when its input ends, so that it does not
//! outlive the process that started it.

mod broken_guard;
pub(crate) mod broken_lock;
mod config;
mod events;
mod job;
pub(crate) mod not_granted;

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::ExitCode;

use tokio::sync::watch;

pub(crate) use self::broken_lock::{CLOCK_BOUND, MASTER, build, builder, locker};
pub use self::config::{Config, Order};
use self::job::Shared;

/// Runs the worker. Called by the hidden command of the command line and by programs of tests.
///
/// Blocks the calling thread; must not be called inside a runtime.
#[must_use]
pub fn main() -> ExitCode {
    match live() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "quorumlock-lab worker: {error}");
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
    // Blocking reads happen on a thread that the runtime does not wait for.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Ok(order) = serde_json::from_str(&line) {
                ordered.send_replace(Some(order));
            }
        }
        // The parent process has ended: exit at once, without releasing locks or reporting events.
        std::process::exit(0);
    });
    runtime.block_on(async {
        Shared::new(config, orders)?.work().await;
        Ok(())
    })
}
