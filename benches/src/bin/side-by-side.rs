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
    /// The workloads to run: P1 to P13, growth; separated by commas. Default: all.
    #[arg(long, env = "ONLY", default_value = "")]
    only: String,
    /// The number of rounds. Default 5, with --quick 3.
    #[arg(long, env = "ROUNDS")]
    rounds: Option<usize>,
    /// The rest of P11 in seconds. Default 600, with --quick 5.
    #[arg(long, env = "REST")]
    rest: Option<u64>,
    /// Short laps, for a quick check; the figures are not for publication.
    #[arg(long, env = "QUICK", value_parser = clap::builder::FalseyValueParser::new())]
    quick: bool,
    /// Do not pin clients and servers to processors. Latencies then include the time in which
    /// processors wake up.
    #[arg(long)]
    all_cores: bool,
    /// A server program; may be repeated. P1 to P4 and P11 run on all of them, the rest on the
    /// first. Default: the program that the tests use.
    #[arg(long)]
    server: Vec<PathBuf>,
    /// The directory for BENCHMARKS.md, the tables, the plots and the results.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Measure nothing; write the pages again.
    #[arg(long)]
    render: bool,
}

/// The role of this program when it starts itself.
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

/// Writes the results after each workload, so that they are not lost if a later one fails.
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

/// `None` is the program that the tests use.
fn programs(named: &[PathBuf]) -> Vec<Option<PathBuf>> {
    if named.is_empty() { vec![None] } else { named.iter().cloned().map(Some).collect() }
}
