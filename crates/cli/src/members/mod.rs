//! `quorumlock members`: which nodes a quorum has, and the change of their list.

mod change;
mod plan;
mod programs;
mod progress;
mod report;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::env::parse_duration;
use quorumlock::{Error, Servers};
use quorumlock_command::{Failure, Outcome, exit, print, say};
use quorumlock_redis::member_list;
use quorumlock_watchdog::Clock;

use self::change::Change;
use self::plan::Intent;
use self::programs::Programs;
use self::report::Report;
use crate::cluster::Cluster;
use crate::doctor::probe::Probe;
use crate::nodes::Nodes;

/// Show which nodes of a quorum vote, and change the list of nodes.
///
/// Without a subcommand: for each node whether it votes, since when it has been on its way back, and
/// for which lists of nodes it votes, and whether it takes and gives back a lock of a reserved name;
/// then what heals by itself and what an operator must do. Exits with 0 if a majority votes, with 69
/// if no majority answers, else with 78.
///
/// The table has for each node whether it votes, and why not; the phase of its record, which grows with
/// each step of a change; and how long the note on its way back still has to age.
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

    /// Wait until every node votes and takes locks, for this time at most; 0s looks once. Exits with 0 if so:
    /// the next node may be restarted. Exits with 82 if not.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
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
    /// Give all programs the new list before: while a program with another list is connected, this
    /// command is refused and names it. With the old list this command goes back: the nodes vote only
    /// for programs with the old list, as before the change. If it is stopped, run it again.
    Finish {
        /// Also while programs with another list are connected: they lose their locks.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        quorum: QuorumArgs,
    },
}

#[derive(Debug, clap::Args)]
struct QuorumArgs {
    #[command(flatten)]
    nodes: Nodes,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn members(args: Args) -> Outcome {
    match args.command {
        None => match args.wait {
            None => show(&args.quorum).await,
            Some(wait) => wait_for_all(&args.quorum, wait).await,
        },
        Some(Command::Add { url, quorum }) => add(&quorum, &url).await,
        Some(Command::Remove { label, quorum }) => remove(&quorum, &label).await,
        Some(Command::Finish { force, quorum }) => finish(&quorum, force).await,
    }
}

/// No answer after this time is no answer.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn show(args: &QuorumArgs) -> Outcome {
    let report = look(args).await?;
    print(args.json, &report)?;
    Ok(report.exit_code())
}

/// How often the nodes are asked whether all of them vote.
const PAUSE: Duration = Duration::from_secs(1);

async fn wait_for_all(args: &QuorumArgs, wait: Duration) -> Outcome {
    let clock = Clock::system();
    let end = clock.now() + wait;
    let mut told = None;
    loop {
        let report = look(args).await;
        let left = end.since(clock.now());
        let waits_for = match report {
            Ok(report) if report.all_vote() || left.is_zero() => {
                print(args.json, &report)?;
                return Ok(if report.all_vote() { 0 } else { exit::NOT_ALL });
            }
            Err(failure) if failure.code != exit::UNREACHABLE || left.is_zero() => {
                return Err(failure);
            }
            Ok(report) => report.votes_of_all(),
            Err(failure) => failure.message,
        };
        if told.as_ref() != Some(&waits_for) {
            say(&waits_for);
            told = Some(waits_for);
        }
        tokio::time::sleep(PAUSE.min(left)).await;
    }
}

async fn look(args: &QuorumArgs) -> Result<Report, Failure> {
    let (urls, builder) = args.nodes.strict_quorum()?;
    let probes = probes(args, &urls)?;
    let locker = builder.on(Servers::quorum(&urls))?;
    let tried = join_all(probes.iter().map(Probe::trial));
    let (nodes, trials) = tokio::join!(locker.node_status(), tried);
    let nodes = nodes?;
    let cluster = Cluster::new(&nodes, args.nodes.note_age());
    if cluster.answers() == 0 {
        // The error has the reasons.
        locker.ping().await?;
    }
    let newest = cluster.newest().map(|terms| terms.next.as_ref().unwrap_or(&terms.list));
    let programs = match newest {
        Some(list) => Programs::with_another_list(&probes, list).await,
        None => Programs::default(),
    };
    Ok(Report::new(&cluster, &trials, &programs))
}

async fn add(args: &QuorumArgs, url: &str) -> Outcome {
    let (urls, _) = args.nodes.strict_quorum()?;
    let label = label_of(url)?;
    let present = without(&urls, &label)?;
    let target =
        if present.len() < urls.len() { urls } else { [&urls[..], &[url.to_owned()]].concat() };
    change(args, Intent::Add(label), present, target).await
}

async fn remove(args: &QuorumArgs, label: &str) -> Outcome {
    let (urls, _) = args.nodes.strict_quorum()?;
    let label = match label.contains("://") {
        true => label_of(label)?,
        false => label.into(),
    };
    let target = without(&urls, &label)?;
    if target.len() < 2 {
        return Err(Failure::usage("a quorum needs two nodes or more"));
    }
    change(args, Intent::Remove(label), urls, target).await
}

async fn finish(args: &QuorumArgs, force: bool) -> Outcome {
    let (urls, _) = args.nodes.strict_quorum()?;
    change(args, Intent::Finish { force }, urls.clone(), urls).await
}

fn probes(args: &QuorumArgs, urls: &[String]) -> Result<Vec<Probe>, Failure> {
    let settings = args.nodes.settings();
    urls.iter().map(|url| Probe::new(url, &settings, TIMEOUT)).collect()
}

async fn change(
    args: &QuorumArgs,
    intent: Intent,
    present: Vec<String>,
    target: Vec<String>,
) -> Outcome {
    let (given, builder) = args.nodes.strict_quorum()?;
    let change = Change {
        nodes: &args.nodes,
        json: args.json,
        builder,
        given_target: target.len() == given.len(),
        probes: probes(args, &target)?,
        present,
        target,
    };
    change.run(intent).await
}

/// The URLs of the nodes that do not have this label.
fn without(urls: &[String], label: &str) -> Result<Vec<String>, Failure> {
    let mut kept = Vec::new();
    for url in urls {
        if *label_of(url)? != *label {
            kept.push(url.clone());
        }
    }
    Ok(kept)
}

/// The label of the node at this URL.
fn label_of(url: &str) -> Result<Arc<str>, Failure> {
    Ok(member_list(&[url]).map_err(Error::from)?.labels()[0].clone())
}
