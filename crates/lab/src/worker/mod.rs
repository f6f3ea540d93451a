//! The locker as a separate process, which can be stopped, killed and partitioned.
//!
//! It speaks the lines of docs/lab/WORKERS.md, as workers of other libraries do: it takes locks one
//! by one, or carries out a whole workload ([`Config`]) and reports its events. The locks of a
//! workload may be those of another library, whose worker it starts.
//!
//! It exits when its input ends, so that it does not outlive the process that started it.

mod broken_guard;
pub(crate) mod broken_lock;
pub mod check;
mod config;
mod events;
mod foreign;
mod job;
pub(crate) mod not_granted;
mod pipe;
pub(crate) mod protocol;
mod serve;

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::ExitCode;

use tokio::sync::{mpsc, watch};

pub(crate) use self::broken_lock::{CLOCK_BOUND, MASTER, build, builder, locker};
pub use self::config::{Config, Order};
use self::events::print;
use self::job::Shared;
pub use self::pipe::{NoWorker, greet};
pub use self::protocol::{Feature, Hello, LockKind, PROTOCOL, Topology};
use self::protocol::{Line, Request};

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
    let Request::Hello(greeting) = serde_json::from_str(&lines.next().ok_or("no hello")??)? else {
        return Err("the first line is no hello".into());
    };
    print(&Line::Hello(serve::hello()));
    // Without another line, the lab asked only who this is.
    let Some(first) = lines.next() else { return Ok(()) };
    let first: Request = serde_json::from_str(&first?)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    if let Request::Work(config) = first {
        let (ordered, orders) = watch::channel(None);
        on_each(lines, move |request| match request {
            Request::Start => drop(ordered.send_replace(Some(Order::Start))),
            Request::End => drop(ordered.send_replace(Some(Order::End))),
            _ => {}
        });
        return runtime.block_on(async {
            Shared::new(*config, orders).await?.work().await;
            Ok(())
        });
    }
    let (requested, requests) = mpsc::unbounded_channel();
    requested.send(first)?;
    on_each(lines, move |request| drop(requested.send(request)));
    runtime.block_on(serve::serve(greeting, requests))
}

/// Passes on the requests, on a thread that the runtime does not wait for.
fn on_each(
    lines: impl Iterator<Item = io::Result<String>> + Send + 'static,
    mut pass_on: impl FnMut(Request) + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Ok(request) = serde_json::from_str(&line) {
                pass_on(request);
            }
        }
        // The parent process has ended: exit at once, without releasing locks or reporting events.
        std::process::exit(0);
    });
}
