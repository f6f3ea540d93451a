//! `quorumlock-lab compare`: measures a single node and a quorum side by side.

mod progress;
mod table;
mod verdict;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorumlock_lab::compare::{CompareError, Plan, Report, RunRecorder, compare as carry_out};
use quorumlock_testbed::servers::StartError;
use rustix::process::Signal;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::progress::Bar;
use crate::exit::{self, Failure, Outcome};
use crate::output::{print, say};
use crate::report::beside;

/// Compare a single node with a quorum, on servers that this command starts.
///
/// Both modes get the same work, alternately: one task on a free lock, many tasks with a lock each,
/// many tasks of several lockers on one lock, and jobs that continue while a server is killed and
/// restarted empty. The servers run on this machine and share its processors with the lockers, so
/// the times show how the modes compare, not how fast your network is.
///
/// Servers are looked for in this order: QUORUMLOCK_REDIS_URLS (1 + nodes URLs; these servers are
/// not killed), QUORUMLOCK_SERVER_BIN, redis-server or valkey-server on PATH, and the program that
/// scripts/get-server has downloaded.
///
/// Exit status: 1 if a mode showed something that it rules out; the verdict says BROKEN.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of servers in the quorum.
    #[arg(long, value_name = "N", default_value_t = 5)]
    nodes: usize,

    /// Measuring time per mode in seconds, approximately.
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,

    /// Number of tasks that lock at the same time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    tasks: usize,

    /// Seed of an earlier run, to repeat its schedule [default: random].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Record the events, judge them as the lab does, and write a report into this directory:
    /// report.html, figures, tables, and the data behind them.
    #[arg(long, value_name = "DIR", overrides_with = "report")]
    report: Option<PathBuf>,

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
    plan.check().map_err(CompareError::from)?;
    let mut recorder = args.report.as_deref().map(|dir| begin(dir, plan.seed)).transpose()?;
    let bar = Bar::new();
    let ended = tokio::select! {
        report = carry_out(plan, recorder.as_mut(), |progress| bar.show(progress)) => Ok(report),
        // Dropping the comparison kills its servers.
        number = interrupted() => Err(number),
    };
    drop(bar);
    let mut kept = None;
    if let (Some(recorder), Some(dir)) = (recorder, &args.report) {
        let report = ended.as_ref().ok().and_then(|report| report.as_ref().ok());
        kept = Some(close_record(recorder, dir, report).await);
    }
    match ended {
        // The error of the comparison takes precedence over an error in keeping its record.
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(report)) => {
            let told = kept.transpose()?;
            told.iter().filter(|_| args.json).for_each(say);
            let broken = verdict::is_broken(&report);
            print(args.json, &Shown { report, told })?;
            Ok(u8::from(broken))
        }
        Err(number) => {
            kept.transpose()?.iter().for_each(say);
            Err(Failure::new(exit::SIGNAL + number, "the comparison was interrupted"))
        }
    }
}

/// Closes the record, however the comparison ended, and writes the report. Returns where the report
/// is.
async fn close_record(
    recorder: RunRecorder,
    dir: &Path,
    report: Option<&Report>,
) -> Result<String, Failure> {
    recorder.close(report).await?;
    Ok(format!("report: {}", beside(dir)?.page.display()))
}

fn begin(dir: &Path, seed: u64) -> Result<RunRecorder, Failure> {
    RunRecorder::create(dir, seed, std::env::args().collect()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(error.to_string()),
        _ => Failure::new(exit::OUTPUT, format!("cannot write to {}: {error}", dir.display())),
    })
}

/// Waits for SIGINT or SIGTERM and returns its number.
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
            CompareError::Record(_) => exit::OUTPUT,
            _ => exit::SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Shown {
    report: Report,
    /// Where the report is. For people.
    #[serde(skip)]
    told: Option<String>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, told } = self;
        write!(f, "{}\n\n{}", table::of(report), verdict::of(report))?;
        told.as_ref().map_or(Ok(()), |told| write!(f, "\n{told}"))
    }
}
