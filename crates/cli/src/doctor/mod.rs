//! `quorumlock doctor`: are these nodes fit to keep locks?

mod admission;
mod facts;
mod judge;
mod probe;
mod report;

use std::time::Duration;

use futures::future::join_all;
use quorumlock_watchdog::Clock;

use self::probe::Probe;
use self::report::Report;
use crate::exit::{Failure, Outcome};
use crate::nodes::{CharterArgs, Nodes};
use crate::output::print;

/// Examine the nodes: what would make locks fail or forget.
///
/// Asks every node at the same time and changes no lock. Says whether the next node may be restarted. Exits with 0 if there is no problem
/// (warnings are none), with 69 if no majority of the nodes answers, else with 78.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    #[command(flatten)]
    charter: CharterArgs,

    /// Give up on a node after this time.
    #[arg(
        long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2s"
    )]
    timeout: Duration,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn doctor(args: Args) -> Outcome {
    let tls_ca = args.nodes.tls_ca()?;
    let probes = args
        .nodes
        .urls()
        .map(|url| Probe::new(url, tls_ca.as_deref(), args.timeout))
        .collect::<Result<Vec<_>, _>>()?;
    if probes.is_empty() {
        return Err(Failure::usage("no node is given: use --node or QUORUMLOCK_NODES"));
    }
    let clock = Clock::system();
    let start = clock.now();
    let nodes = join_all(probes.iter().map(|probe| probe.examine(&clock, start))).await;
    let urls = args.nodes.urls().collect::<Vec<_>>();
    let admission = if urls.len() > 1 && args.charter.strict() {
        let mut builder = args.charter.builder().answer_timeout(args.timeout);
        if let Some(pem) = tls_ca {
            builder = builder.tls_ca(pem);
        }
        admission::examine(builder, &urls).await
    } else {
        Vec::new()
    };
    let report = Report::new(nodes, admission);
    print(args.json, &report)?;
    Ok(report.exit_code())
}
