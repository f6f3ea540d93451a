//! `quorumlock init`: admits all nodes of a quorum, or the one server that must prove its memory.

use std::fmt;
use std::time::Duration;

use quorumlock::admission::MemberList;
use quorumlock::env::parse_duration;
use quorumlock::{Error, NodeProblem};
use quorumlock_command::{Failure, Outcome, print};
use serde::Serialize;

use crate::nodes::{Nodes, millis};
use crate::text::brief;

/// Admit all nodes of a new quorum, or with --admission strict the one new server or master, at once.
///
/// Where all nodes vote it does nothing, so that a deployment may run it each time. If one of the nodes
/// has a record of this cluster and another does not vote, it fails: that one may have forgotten a lock,
/// and programs that lock admit it after the longest lease and twice the clock bound. Without init,
/// programs admit new servers after the same time, when all of them answer. Programs with plain Redlock
/// (`--admission redlock`) need no admission.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: Nodes,

    /// Admit the nodes whatever they show, also nodes of another cluster: you vouch that every program that
    /// uses one of them has been stopped for the longest lease.
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
    let locker = args.nodes.strict(args.timeout)?;
    let age = args.nodes.note_age();
    let already = !args.force && locker.node_status().await?.iter().all(|node| node.is_admitted());
    let admitted = match args.force {
        true => locker.force_admit_nodes().await,
        false => locker.admit_nodes().await,
    };
    admitted.map_err(|error| refused(error, age))?;
    let list = MemberList::new(locker.node_status().await?.into_iter().map(|node| node.label));
    let admitted = Admitted {
        changed: !already,
        nodes: list.labels().iter().map(ToString::to_string).collect(),
        max_lease_ms: millis(args.nodes.max_lease()),
        clock_bound_ms: millis(args.nodes.clock_bound()),
        age,
    };
    print(args.json, &admitted)?;
    Ok(0)
}

/// Says who must act, and what happens if nobody does.
fn refused(error: Error, age: Duration) -> Failure {
    let of_nodes = matches!(error, Error::Unreachable(_) | Error::Refused(_));
    let forgot = matches!(&error, Error::Refused(none)
        if none.nodes.iter().all(|node| node.problem == NodeProblem::Founded));
    let mut failure = Failure::from(error);
    if of_nodes {
        failure.message += &match forgot {
            true => format!(
                "\nNothing was changed. These nodes vote again by themselves within {}, once a program that \
                 locks runs",
                brief(age)
            ),
            false => format!(
                "\nAn operator must mend these nodes, and then run this again. Without it, new nodes vote by \
                 themselves within {}, once all of them answer, are fit, and a program that locks runs",
                brief(age)
            ),
        };
    }
    failure
}

#[derive(Debug, Serialize)]
struct Admitted {
    /// Whether the command has admitted them: otherwise all voted before.
    changed: bool,
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
        match self.changed {
            true => writeln!(f, "admitted: {nodes}")?,
            false => writeln!(f, "nothing to do, all nodes vote: {nodes}")?,
        }
        write!(
            f,
            "a node that restarts votes again by itself within {age}, if a program that locks runs"
        )
    }
}
