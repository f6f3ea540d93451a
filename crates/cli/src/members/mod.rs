//! `quorumlock members`: which nodes a quorum has, and the change of their list.

mod change;
mod plan;
mod progress;
mod report;

use std::sync::Arc;

use quorumlock::Builder;
use quorumlock::admission::Until;
use quorumlock_command::{Failure, Outcome, print};

use self::change::Change;
use self::plan::Intent;
use self::report::Report;
use crate::cluster::Cluster;
use crate::nodes::{ClusterArgs, Nodes};

/// Show which nodes of a quorum vote, and change the list of nodes.
///
/// Without a subcommand: for each node whether it votes, since when it has been on its way back, and
/// for which lists of nodes it votes; then what heals by itself and what an operator must do. Exits
/// with 0 if a majority votes, with 69 if no majority answers, else with 78.
///
/// A list changes by one server at a time, in two steps, and locks stay held meanwhile: `add` or
/// `remove`, then give all programs the new list, then `finish`. To exchange a server, add the new
/// one and finish, then remove the old one and finish.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    quorum: QuorumArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a server: goes on until all nodes vote for programs with the present list and for
    /// programs with the new one.
    ///
    /// --node is the list that all programs use now, without the new server. If this command is
    /// stopped, run it again.
    Add {
        /// The new server's URL.
        url: String,
        #[command(flatten)]
        quorum: QuorumArgs,
    },
    /// Remove a server, which may be dead: goes on until all other nodes vote for programs with the
    /// present list and for programs with the new one.
    ///
    /// --node is the list that all programs use now, with the server that goes. If this command is
    /// stopped, run it again.
    Remove {
        /// The server's label, as `quorumlock members` shows it, or its URL.
        label: String,
        #[command(flatten)]
        quorum: QuorumArgs,
    },
    /// End a change: goes on until the nodes vote only for programs with the list in --node.
    ///
    /// Give all programs the new list before. With the old list this command goes back: the nodes
    /// vote only for programs with the old list, as before the change. If it is stopped, run it
    /// again.
    Finish {
        #[command(flatten)]
        quorum: QuorumArgs,
    },
}

#[derive(Debug, clap::Args)]
struct QuorumArgs {
    #[command(flatten)]
    nodes: Nodes,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn members(args: Args) -> Outcome {
    match args.command {
        None => show(&args.quorum).await,
        Some(Command::Add { url, quorum }) => add(&quorum, &url).await,
        Some(Command::Remove { label, quorum }) => remove(&quorum, &label).await,
        Some(Command::Finish { quorum }) => finish(&quorum).await,
    }
}

async fn show(args: &QuorumArgs) -> Outcome {
    let (urls, builder) = args.nodes.strict_quorum(&args.cluster)?;
    let locker = builder.quorum(&urls)?;
    let nodes = locker.node_status().await?;
    let cluster = Cluster::new(&nodes, args.cluster.note_age());
    if cluster.answers() == 0 {
        // The error has the reasons.
        locker.ping().await?;
    }
    let report = Report::new(&cluster);
    print(args.json, &report)?;
    Ok(report.exit_code())
}

async fn add(args: &QuorumArgs, url: &str) -> Outcome {
    let (urls, builder) = args.nodes.strict_quorum(&args.cluster)?;
    let label = label_of(&builder, url)?;
    let present = without(&builder, &urls, &label)?;
    let target =
        if present.len() < urls.len() { urls.clone() } else { [&urls[..], &[url]].concat() };
    change(args, Intent::Add(label), present, target).await
}

async fn remove(args: &QuorumArgs, label: &str) -> Outcome {
    let (urls, builder) = args.nodes.strict_quorum(&args.cluster)?;
    let label = match label.contains("://") {
        true => label_of(&builder, label)?,
        false => label.into(),
    };
    let target = without(&builder, &urls, &label)?;
    if target.len() < 2 {
        return Err(Failure::usage("a quorum needs two nodes or more"));
    }
    change(args, Intent::Remove(label), urls, target).await
}

async fn finish(args: &QuorumArgs) -> Outcome {
    let (urls, _) = args.nodes.strict_quorum(&args.cluster)?;
    change(args, Intent::Finish, urls.clone(), urls).await
}

async fn change(
    args: &QuorumArgs,
    intent: Intent,
    present: Vec<&str>,
    target: Vec<&str>,
) -> Outcome {
    let (given, builder) = args.nodes.strict_quorum(&args.cluster)?;
    let change = Change {
        cluster: &args.cluster,
        json: args.json,
        builder,
        given_target: target.len() == given.len(),
        present,
        target,
    };
    change.run(intent).await
}

/// The URLs of the nodes that do not have this label.
fn without<'a>(builder: &Builder, urls: &[&'a str], label: &str) -> Result<Vec<&'a str>, Failure> {
    let mut kept = Vec::new();
    for url in urls {
        if *label_of(builder, url)? != *label {
            kept.push(*url);
        }
    }
    Ok(kept)
}

/// The label of the node at this URL.
fn label_of(builder: &Builder, url: &str) -> Result<Arc<str>, Failure> {
    let alone = builder.clone().change_members([url], [url], Until::BothVote)?;
    Ok(alone.target().labels()[0].clone())
}
