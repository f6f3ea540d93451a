//! `quorumlock-lab compare`: a single node and a quorum side by side, or the locks of several libraries.

mod libraries;
mod table;
mod verdict;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorumlock_command::{Failure, Outcome, exit, print, say};
use quorumlock_lab::compare::{MEASURED, Plan, Report, measure};
use quorumlock_lab::record;
use quorumlock_lab::runner::Driver;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::{cannot_write, require_fresh};
use crate::report::beside;
use crate::run::{carry_out, new_lab};
use crate::table::{Cell, cells};
use crate::workers::Named;

/// Compare a single node with a quorum, on servers that this command starts.
///
/// Both modes carry out scenarios C1 and C2 of the lab, alternately: one task on a free lock, many
/// tasks with a lock each, many tasks of several processes on one lock, and jobs that continue while
/// a server is killed and restarted empty. The servers run on this machine and share its processors
/// with the lockers, so the times show how the modes compare, not how fast your network is.
///
/// Servers are looked for in this order: QUORUMLOCK_REDIS_URLS (as many URLs as nodes; these servers
/// are not killed), QUORUMLOCK_SERVER_BIN, redis-server or valkey-server on PATH, and the program
/// that scripts/get-server has downloaded.
///
/// With --workers, the locks of other libraries go through ten scenarios beside those of quorumlock, on
/// one server, behind sentinels and on a quorum of 5: where exclusion falls, how long nobody holds the
/// lock, and whether a holder is told.
///
/// Exit status: 1 if a run of quorumlock is not as theory says. If a mode showed something that it rules
/// out, the verdict says BROKEN.
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

    /// Compare lock libraries: workers that scripts/get-interop has prepared (set-nx-px, redis-py,
    /// redisson, redisson-fenced, node-redlock, redsync), or programs that speak the lines of
    /// docs/lab/WORKERS.md, as NAME=COMMAND. Separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["nodes", "seconds", "tasks"])]
    workers: Vec<Named>,

    /// Number of repetitions of each run, with --workers.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "workers", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    repeat: u64,

    /// Number of runs at the same time, with --workers.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "workers", value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,

    /// Keep the record of the runs, and write a report into this directory: report.html, figures,
    /// tables, and the data behind them.
    #[arg(long, value_name = "DIR", overrides_with = "report")]
    report: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn compare(args: Args) -> Outcome {
    let Some(dir) = &args.report else {
        let dir =
            tempfile::tempdir().map_err(|error| cannot_write(&std::env::temp_dir(), &error))?;
        return compare_in(dir.path(), &args).await;
    };
    require_fresh(dir, false)?;
    compare_in(dir, &args).await
}

async fn compare_in(dir: &Path, args: &Args) -> Outcome {
    let seed = args.seed.unwrap_or_else(|| rand::random_range(0..1_000_000));
    if !args.workers.is_empty() {
        return libraries::compare_in(dir, seed, args).await;
    }
    let plan = Plan {
        nodes: args.nodes,
        measuring: Duration::from_secs(args.seconds),
        tasks: args.tasks,
        seed,
    };
    plan.check().map_err(|bad| Failure::usage(bad.to_string()))?;
    let trials = plan.trials().into_iter().map(|trial| (trial, Driver::Process));
    let interrupt = Interrupt::listen();
    // One run at a time: runs at the same time would disturb each other.
    let lab = new_lab(plan.seed);
    let lab = carry_out(&trials.collect::<Vec<_>>(), lab, 1, dir, &interrupt).await?;
    let mut report = None;
    if !lab.interrupted {
        let measured = measure(&plan, &lab, dir);
        let measured = report.insert(measured.map_err(|error| {
            Failure::new(exit::OUTPUT, format!("what happened cannot be read back: {error}"))
        })?);
        record::write(&dir.join(MEASURED), measured).map_err(|error| cannot_write(dir, &error))?;
    }
    let mut told = None;
    if args.report.is_some() {
        told = Some(format!("report: {}", beside(dir)?.page.display()));
    }
    let Some(report) = report else {
        told.iter().for_each(say);
        return Err(Failure::new(interrupt.code(), "the comparison was interrupted"));
    };
    told.iter().filter(|_| args.json).for_each(say);
    print(args.json, &Shown { report, told })?;
    Ok(u8::from(!cells(&lab.runs).iter().all(Cell::as_expected)))
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
        write!(f, "{}\n\n{}\n\n", verdict::in_short(report), table::of(report))?;
        f.write_str(&verdict::of(report))?;
        told.as_ref().map_or(Ok(()), |told| write!(f, "\n{told}"))
    }
}
