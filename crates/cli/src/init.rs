//! `quorumlock init`: admits all nodes of a quorum, or the one server that must prove its memory.

use std::fmt;
use std::time::Duration;

use quorumlock::Error;
use quorumlock::admission::MemberList;
use quorumlock::env::parse_duration;
use quorumlock_command::{Failure, Outcome, print};
use serde::Serialize;

use crate::nodes::{ClusterArgs, Nodes, millis};
use crate::text::brief;

/// Admit all nodes of a quorum, or with --admission strict the one server or master, at once; you vouch
/// that no node has forgotten a lock.
///
/// For new servers, and after repairs by hand. Without it, programs that lock admit new servers
/// after the longest lease and twice the clock bound, when all of them answer. Programs with plain
/// Redlock (`--admission redlock`) need no admission.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Also take nodes from another cluster: you vouch that no lock is held there and its programs
    /// have stopped.
    #[arg(long)]
    force: bool,

    /// Give up on a node that cannot be connected, or does not answer, for this time. A node that refuses
    /// the connection is not waited for.
    #[arg(
        long, value_name = "TIME", value_parser = parse_duration, default_value = "10s"
    )]
    timeout: Duration,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn init(args: Args) -> Outcome {
    let locker = args.nodes.strict(&args.cluster, args.timeout)?;
    let age = args.cluster.note_age();
    let admitted = match args.force {
        true => locker.force_admit_nodes().await,
        false => locker.admit_nodes().await,
    };
    admitted.map_err(|error| refused(error, age))?;
    let list = MemberList::new(locker.node_status().await?.into_iter().map(|node| node.label));
    let admitted = Admitted {
        nodes: list.labels().iter().map(ToString::to_string).collect(),
        max_lease_ms: millis(args.cluster.max_lease),
        clock_bound_ms: millis(args.cluster.clock_bound()),
        age,
    };
    print(args.json, &admitted)?;
    Ok(0)
}

/// Says who must act, and what happens if nobody does.
fn refused(error: Error, age: Duration) -> Failure {
    let of_nodes = matches!(error, Error::Unreachable(_) | Error::Refused(_));
    let mut failure = Failure::from(error);
    if of_nodes {
        failure.message += &format!(
            "\nAn operator must mend these nodes, and then run this again. Without it, new nodes vote by \
             themselves within {}, once all of them answer, are fit, and a program that locks runs",
            brief(age)
        );
    }
    failure
}

#[derive(Debug, Serialize)]
struct Admitted {
    /// The labels: the list that identifies the cluster.
    nodes: Vec<String>,
    max_lease_ms: u64,
    clock_bound_ms: u64,
    /// After what time a restarted node votes.
    #[serde(skip)]
    age: Duration,
}

impl fmt::Display for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, age) = (self.nodes.join(", "), brief(self.age));
        writeln!(f, "admitted: {nodes}")?;
        write!(
            f,
            "a node that restarts votes again by itself within {age}, if a program that locks runs"
        )
    }
}
