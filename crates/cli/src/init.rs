//! `quorumlock init`: vouch for the memory of all nodes of a quorum.

use std::fmt;
use std::time::Duration;

use quorumlock::{Admission, Locker};
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::nodes::Nodes;
use crate::output::print;

/// Admit all nodes of a quorum at once, on your word that none has forgotten a lock.
///
/// For new servers, and after repairs by hand. Only programs that use strict admission ask for it;
/// without it they wait until a node was watched for the longest lease.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    /// The longest lease that any lock on these nodes may have; all programs must agree.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    max_lease: Duration,

    /// The cluster's name; all programs must agree.
    #[arg(long, default_value = "quorumlock")]
    cluster: String,

    /// Raised at each change of membership; all programs must agree.
    #[arg(long, default_value_t = 1)]
    epoch: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn init(args: Args) -> Outcome {
    let urls: Vec<&str> = args.nodes.urls().collect();
    if urls.len() < 2 {
        return Err(Failure::usage("admission is for quorums: give all nodes, each with --node"));
    }
    let mut builder = Locker::builder()
        .admission(Admission::Strict)
        .cluster(&args.cluster, args.epoch)
        .lease(args.max_lease.min(Duration::from_secs(30)))
        .max_lease(args.max_lease);
    if let Some(pem) = args.nodes.tls_ca()? {
        builder = builder.tls_ca(pem);
    }
    builder.quorum(&urls)?.provision().await?;
    let max_lease_ms = u64::try_from(args.max_lease.as_millis()).unwrap_or(u64::MAX);
    let (nodes, cluster, epoch) = (urls.len(), args.cluster.clone(), args.epoch);
    print(args.json, &Admitted { nodes, cluster, epoch, max_lease_ms })?;
    Ok(0)
}

#[derive(Debug, Serialize)]
struct Admitted {
    nodes: usize,
    cluster: String,
    epoch: u64,
    max_lease_ms: u64,
}

impl fmt::Display for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, cluster, epoch, .. } = self;
        write!(f, "{nodes} nodes admitted (cluster {cluster}, epoch {epoch})")
    }
}
