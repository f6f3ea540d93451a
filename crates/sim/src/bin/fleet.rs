//! Runs fleets of several sizes in simulated time, and prints what they cost as a table.

use std::time::Duration;

use clap::Parser;
use quorumlock_sim::fleet::{Fleet, FleetReport};

/// What a fleet of processes costs its nodes and its callers, by its size. Without arguments: the table
/// of docs/FLEET.md.
#[derive(Debug, Parser)]
struct Args {
    /// The number of processes; 0: several sizes, one row each.
    #[arg(long, default_value_t = 0)]
    processes: usize,
    /// The number of locks that they share.
    #[arg(long, default_value_t = 1_000)]
    names: usize,
    /// The number of nodes.
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// The time of a request and its reply, in milliseconds.
    #[arg(long, default_value_t = 50)]
    round_trip_ms: u64,
    /// For how long a process holds a lock, in milliseconds.
    #[arg(long, default_value_t = 200)]
    hold_ms: u64,
    /// The mean pause of a process between two locks, in seconds.
    #[arg(long, default_value_t = 10)]
    think_s: u64,
    /// For how long the processes ask for locks, in seconds.
    #[arg(long, default_value_t = 60)]
    time_s: u64,
    /// What decides all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Processes and names of the rows.
const SIZES: [(usize, usize); 7] =
    [(100, 1_000), (1_000, 1_000), (3_000, 1_000), (1_000, 100), (1_000, 10), (1_000, 1), (100, 1)];

#[allow(clippy::print_stdout, reason = "this is the output of the command")]
fn main() {
    let args = Args::parse();
    let one = [(args.processes, args.names)];
    let sizes = if args.processes > 0 { &one[..] } else { &SIZES };
    println!(
        "| processes | names | locks taken | failed | commands a lock | commands a second and node | \
         busiest node, second half | connections a node | wait p50 | p99 | longest |\n|{}",
        "---|".repeat(11)
    );
    for &(processes, names) in sizes {
        let fleet = Fleet {
            processes,
            names,
            nodes: args.nodes,
            round_trip: Duration::from_millis(args.round_trip_ms),
            hold: Duration::from_millis(args.hold_ms),
            think: Duration::from_secs(args.think_s),
            time: Duration::from_secs(args.time_s),
            seed: args.seed,
        };
        println!("{}", row(&fleet, &fleet.run()));
    }
}

fn row(fleet: &Fleet, report: &FleetReport) -> String {
    let Fleet { processes, names, nodes, time, .. } = *fleet;
    let all: u64 = report.commands.iter().sum();
    let rate = all as f64 / nodes as f64 / time.as_secs_f64();
    let busiest = report.busiest_later() as f64 / (time / 2).as_secs_f64();
    let [half, most, longest] = [0.5, 0.99, 1.0].map(|share| report.wait(share).as_millis());
    format!(
        "| {processes} | {names} | {} | {} | {:.1} | {rate:.0} | {busiest:.0} | {} | {half} ms | {most} ms | {longest} ms |",
        report.waits.len(),
        report.failed,
        report.commands_each(),
        report.connections,
    )
}
