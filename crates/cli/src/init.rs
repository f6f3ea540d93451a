//! `quorumlock init`: admits all nodes of a quorum.

use std::fmt;

use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::nodes::{ClusterArgs, Nodes};
use crate::output::print;

/// Admit all nodes of a quorum at once; you vouch that no node has forgotten a lock.
///
/// For new servers, and after repairs by hand. Without it, programs wait until a node was watched
/// for the longest lease. Programs with plain Redlock (`--admission redlock`) need no admission.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn init(args: Args) -> Outcome {
    let urls = args.nodes.urls()?;
    if urls.len() < 2 || args.nodes.replicated {
        return Err(Failure::usage(
            "admission is for quorums: give all nodes, each with --node, without --replicated",
        ));
    }
    if !args.cluster.strict() {
        return Err(Failure::usage("with --admission redlock there is nothing to admit"));
    }
    let builder = args.nodes.tls()?.give_to(args.cluster.builder());
    builder.quorum(&urls)?.admit_nodes().await?;
    let max_lease_ms = u64::try_from(args.cluster.max_lease.as_millis()).unwrap_or(u64::MAX);
    let (nodes, (cluster, epoch)) = (urls.len(), args.cluster.cluster());
    print(args.json, &Admitted { nodes, cluster, epoch, max_lease_ms })?;
    Ok(0)
}

#[derive(Debug, Serialize)]
struct Admitted<'a> {
    nodes: usize,
    cluster: &'a str,
    epoch: u64,
    max_lease_ms: u64,
}

impl fmt::Display for Admitted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, cluster, epoch, .. } = self;
        write!(f, "{nodes} nodes admitted (cluster {cluster}, epoch {epoch})")
    }
}
