//! `quorumlock compare`: a single node and a quorum, side by side.

mod progress;
mod table;
mod verdict;

use std::fmt;
use std::io;
use std::time::Duration;

use quorumlock_lab::compare::{CompareError, Plan, Report, compare as carry_out};
use quorumlock_lab::servers::StartError;
use rustix::process::Signal;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::progress::Bar;
use crate::exit::{self, Failure, Outcome};
use crate::output::print;

/// Compare a single node with a quorum, on servers that are started for it.
///
/// Both modes get the same work in turns: one task on a free lock, many tasks with a lock each, many
/// tasks of several lockers on one lock, and jobs that go on while a server is killed and comes
/// back empty. The servers are local and share the processors with the lockers, so the times say
/// how the modes compare, not how fast your network is.
///
/// Servers are looked for in QUORUMLOCK_REDIS_URLS (1 + nodes of them; none is killed then),
/// QUORUMLOCK_SERVER_BIN, redis-server or valkey-server on PATH, and what scripts/get-server has
/// fetched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Servers of the quorum.
    #[arg(long, value_name = "N", default_value_t = 5)]
    nodes: usize,

    /// Measuring time per mode, in seconds, roughly.
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,

    /// Tasks that lock at the same time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    tasks: usize,

    /// Repeat the schedule of another run [default: a new one].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn compare(args: Args) -> Outcome {
    let plan = Plan {
        nodes: args.nodes,
        measuring: Duration::from_secs(args.seconds),
        tasks: args.tasks,
        seed: args.seed.unwrap_or_else(|| rand::random_range(0..1_000_000)),
    };
    let bar = Bar::new();
    let report = tokio::select! {
        report = carry_out(plan, |progress| bar.show(progress)) => report,
        // Dropping the comparison kills its servers.
        number = interrupted() => return Ok(exit::SIGNAL + number),
    };
    drop(bar);
    print(args.json, &Shown(report?))?;
    Ok(0)
}

/// The number of the signal that came.
async fn interrupted() -> u8 {
    let both =
        || io::Result::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?));
    let Ok((mut interrupt, mut terminate)) = both() else { return std::future::pending().await };
    let signal = tokio::select! {
        _ = interrupt.recv() => Signal::INT,
        _ = terminate.recv() => Signal::TERM,
    };
    u8::try_from(signal.as_raw()).unwrap_or_default()
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        let code = match error {
            CompareError::Plan(_) | CompareError::Start(StartError::TooFewUrls { .. }) => {
                exit::USAGE
            }
            CompareError::Start(_) => exit::UNREACHABLE,
            CompareError::Lock(error) => return error.into(),
            _ => exit::SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Shown(Report);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        write!(f, "{}\n\n{}", table::of(report), verdict::of(report))
    }
}
