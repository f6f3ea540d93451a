//! `quorumlock doctor`: checks whether nodes are fit to hold locks.

mod admission;
mod capabilities;
pub(crate) mod facts;
mod judge;
mod permissions;
pub(crate) mod probe;
mod report;

use std::time::Duration;

use futures::future::join_all;
use quorumlock::env::parse_duration;
use quorumlock::{ConfigError, Error, Locker};
use quorumlock_command::{Failure, Outcome, print};
use quorumlock_watchdog::Clock;

use self::probe::Probe;
use self::report::Report;
use crate::nodes::Nodes;
use crate::servers::Servers;

/// Examine the nodes: what would make locks fail or forget.
///
/// Asks every node at the same time. Changes no lock, and takes and gives back one of a reserved name.
/// Exits with 0 if there is no problem and the next node may be restarted, with 82 if it may not, because
/// not every node votes, with 69 if no majority of the nodes answers, else with 78. Other warnings do not
/// count.
///
/// The table has for each node the median and the worst time of its answers, how far its clock is ahead
/// of the slowest one, its version, role, `maxmemory-policy` and persistence, and which optional commands
/// it lacks: locks need none of these.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    /// Give up on a node after this time.
    #[arg(
        long, value_name = "TIME", value_parser = parse_duration, default_value = "2s"
    )]
    timeout: Duration,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn doctor(args: Args) -> Outcome {
    // The library says what is wrong with a URL.
    let locker = locker(&args)?;
    let Servers { urls, topology } = Servers::find(&args.nodes, timeout(&args)).await?;
    let settings = args.nodes.settings();
    let probe = |url: &String| Probe::new(url, &settings, args.timeout);
    let probes = urls.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
    let clock = Clock::system();
    let start = clock.now();
    let nodes = join_all(probes.iter().map(|probe| probe.examine(&clock, start))).await;
    let admission = match locker.filter(|_| topology.is_strict()) {
        Some(locker) => admission::examine(&locker, &nodes, topology, args.nodes.note_age()).await,
        None => Vec::new(),
    };
    let report = Report::new(nodes, topology, admission);
    print(args.json, &report)?;
    Ok(report.exit_code())
}

/// A locker on these nodes; `None` if two addresses are one server, which the checks report.
fn locker(args: &Args) -> Result<Option<Locker>, Failure> {
    match args.nodes.build(args.nodes.patient(timeout(args)))? {
        Err(Error::Config(ConfigError::SameServer { .. })) => Ok(None),
        built => Ok(Some(built?)),
    }
}

/// The timeout, within the bounds of the library.
fn timeout(args: &Args) -> Duration {
    args.timeout.clamp(Duration::from_millis(1), Duration::from_secs(60))
}
