//! quorumlock beside the bare `redis` crate and other lock crates: see `make bench`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use clap::{Parser, Subcommand};
use quorumlock_benches::plan::Plan;
use quorumlock_benches::report::{self, DIR, RESULTS, machine};
use quorumlock_benches::results::{Condition, Results};
use quorumlock_benches::testbed::{Testbed, now};
use quorumlock_benches::workload::{self, Holder, Worker};

/// quorumlock beside the bare redis crate and other lock crates, in one run, on the same servers.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Which workloads: P1 to P11, growth; separated by commas. All without it.
    #[arg(long, env = "ONLY", default_value = "")]
    only: String,
    /// How many rounds. Default 5, quick 3.
    #[arg(long, env = "ROUNDS")]
    rounds: Option<usize>,
    /// For how many seconds P11 rests. Default 600, quick 5.
    #[arg(long, env = "REST")]
    rest: Option<u64>,
    /// Short laps: for a look, not for figures.
    #[arg(long, env = "QUICK", value_parser = clap::builder::FalseyValueParser::new())]
    quick: bool,
    /// Let clients and servers run where they like. Latencies are then those of waking processors up.
    #[arg(long)]
    all_cores: bool,
    /// A server program; may be repeated. P1 to P4 and P11 are for all of them, the rest for the
    /// first. Default: the program that tests use.
    #[arg(long)]
    server: Vec<PathBuf>,
    /// Where BENCHMARKS.md, the tables, the plots and the results go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Measure nothing: write the pages again.
    #[arg(long)]
    render: bool,
}

/// What this program is when it runs itself.
#[derive(Subcommand)]
enum Role {
    /// One of several processes that want the same lock.
    #[command(hide = true)]
    Worker(Worker),
    /// The process that holds many locks.
    #[command(hide = true)]
    Holder(Holder),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let text = match &arguments.role {
        Some(Role::Worker(worker)) => worker.run().await?,
        Some(Role::Holder(holder)) => holder.run().await?,
        None if arguments.render => {
            report::write(&read(&arguments.out)?, &arguments.out)?;
            format!("written: {}", arguments.out.display())
        }
        None => measure(&arguments).await?,
    };
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn read(out: &Path) -> Result<Results> {
    Results::read(&out.join(DIR).join(RESULTS))
}

/// Results are written after each workload: what the others measured is not lost if one fails.
async fn measure(arguments: &Arguments) -> Result<String> {
    let plan = Plan::new(arguments.rounds, arguments.rest, arguments.quick);
    let plan = plan.only(&arguments.only).map_err(Error::msg)?;
    let pinned = !arguments.all_cores;
    let machine = machine::record(&plan, pinned);
    let mut testbeds = Vec::new();
    for program in programs(&arguments.server) {
        testbeds.push(Testbed::of(program, pinned).await?);
    }
    let (mut text, mut failed) = (String::new(), None);
    for &workload in &plan.workloads {
        let begin = now();
        match workload::run(workload, &mut testbeds, &plan).await {
            Ok(mut new) => {
                let measured =
                    |testbed: &&Testbed| new.servers().contains(&testbed.name().as_str());
                for testbed in testbeds.iter().filter(measured).collect::<Vec<_>>() {
                    let (version, machine) = (testbed.version(), machine.clone());
                    new.note(workload.id, &testbed.name(), Condition { version, machine });
                }
                let mut all = read(&arguments.out)?;
                all.take_over(new);
                report::write(&all, &arguments.out)?;
                text += &format!("{}: {} s\n", workload.id, now().since(begin).as_secs());
            }
            Err(error) => {
                writeln!(std::io::stderr(), "{} failed: {error:#}", workload.id)?;
                failed = Some(error.context(workload.id));
            }
        }
    }
    failed.map_or_else(|| Ok(text + &format!("written: {}", arguments.out.display())), Err)
}

/// `None` is the one that tests use.
fn programs(named: &[PathBuf]) -> Vec<Option<PathBuf>> {
    if named.is_empty() { vec![None] } else { named.iter().cloned().map(Some).collect() }
}
