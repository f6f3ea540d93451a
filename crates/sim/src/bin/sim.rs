//! Runs many seeds of the simulation, or one seed with its trace, or looks for the planted bugs.

use std::process::ExitCode;

use clap::Parser;
use quorumlock_sim::{Bug, SeedSummary, fresh_start, hunt, run, run_all};

/// Whole fleets under simulated time, every fault decided by one seed.
#[derive(Debug, Parser)]
struct Args {
    /// How many seeds to run.
    #[arg(long, env = "SEEDS", default_value_t = 20_000)]
    seeds: u64,
    /// Replays one seed and prints the end of its trace.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// Where to begin.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Runs so many more seeds, from one on that the operating system draws.
    #[arg(long, env = "FRESH", default_value_t = 0)]
    fresh: u64,
    /// Threads.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
    /// Looks for each planted bug, in as many seeds as it takes, and prints the table.
    #[arg(long)]
    mutants: bool,
    /// With --mutants: nothing else is run.
    #[arg(long)]
    only: bool,
    /// Plants this bug (by its name in the table); with --mutants: looks for this one only.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// With --seed: how many lines of the trace to print.
    #[arg(long, default_value_t = 200)]
    lines: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.seed {
        Some(seed) => replay(seed, &args),
        None => all(&args),
    }
}

fn replay(seed: u64, args: &Args) -> ExitCode {
    let outcome = run(seed, args.bug, args.lines);
    let mut text = format!("{}\n", outcome.plan);
    for line in &outcome.trace {
        text += line;
        text.push('\n');
    }
    eprint!("{text}");
    say(&format!("{outcome}; trace {:016x}", outcome.hash));
    exit(outcome.violation.is_none())
}

fn all(args: &Args) -> ExitCode {
    if args.mutants && args.only {
        let (caught, planted) = mutants(args);
        return exit(caught == planted);
    }
    let fresh = fresh_start();
    say(&format!("seeds: {}", range(args.first, args.seeds)));
    if args.fresh > 0 {
        say(&format!("fresh seeds: {}", range(fresh, args.fresh)));
    }
    let mut tally = run_all(args.first, args.seeds, args.jobs);
    tally.join(run_all(fresh, args.fresh, args.jobs));
    for outcome in tally.violations.iter().take(20) {
        say(&format!("{outcome}\n  replay: {}", outcome.replay()));
    }
    for what in tally.never_seen() {
        say(&format!("never seen: {}", what.what()));
    }
    for invariant in tally.unseen_breaks() {
        say(&format!("blind: {invariant:?} never fell, though what it needs was broken"));
    }
    let caught = if args.mutants { mutants(args) } else { known_mutants() };
    let whole = caught.0 == caught.1;
    say(&summary(&tally, caught));
    exit(tally.violations.is_empty() && tally.never_seen().is_empty() && whole)
}

/// Runs each planted bug in the seed that is known to find it. Returns how many were caught, and
/// how many there are.
fn known_mutants() -> (usize, usize) {
    let known: Vec<_> =
        Bug::ALL.into_iter().filter_map(|bug| Some((bug, bug.first_seed()?))).collect();
    let caught = known.iter().filter(|(bug, seed)| {
        let by = run(*seed, Some(*bug), 0).violation.map(|v| v.invariant());
        let caught = by.is_some_and(|by| bug.caught_by().contains(&by));
        if !caught {
            say(&format!("{bug:?} survived seed {seed}: {}", bug.what()));
        }
        caught
    });
    (caught.count(), known.len())
}

/// Hunts the planted bugs and prints the table. Returns how many were caught, and how many there
/// are.
fn mutants(args: &Args) -> (usize, usize) {
    say("| planted bug | what it does | caught by | seed | steps |\n|---|---|---|---|---|");
    let bugs = args.bug.map_or_else(|| Bug::ALL.to_vec(), |bug| vec![bug]);
    let mut caught = 0;
    for bug in bugs.iter().copied() {
        match hunt(bug, args.first, args.seeds, args.jobs) {
            Some(catch) => {
                caught += 1;
                let by = catch.outcome.violation.as_ref().map(|violation| violation.invariant());
                let by = by.map(|by| format!("{by:?}")).unwrap_or_default();
                let (seed, events) = (catch.outcome.seed, catch.outcome.events);
                let what = bug.what();
                say(&format!("| {bug:?} | {what} | {by} | {seed} | {events} |"));
            }
            None => say(&format!("| {bug:?} | {} | SURVIVED | | |", bug.what())),
        }
    }
    (caught, bugs.len())
}

fn bug(name: &str) -> Result<Bug, String> {
    let named = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    named.ok_or_else(|| format!("none of {:?}", Bug::ALL))
}

fn summary(tally: &SeedSummary, (caught, planted): (usize, usize)) -> String {
    let expected = tally.expected.iter().map(|(which, seeds)| format!("{which:?} {seeds}"));
    let expected = expected.collect::<Vec<_>>().join(", ");
    format!(
        "sim: {} seeds, {} events, traces {:016x}, {} violations; with broken assumptions fell: {expected}; \
         mutants: {caught} of {planted} caught; sometimes not seen: {}",
        tally.seeds,
        tally.events,
        tally.traces,
        tally.violations.len(),
        tally.never_seen().len(),
    )
}

fn range(first: u64, count: u64) -> String {
    match count.checked_sub(1) {
        Some(more) => format!("{first} to {}", first + more),
        None => "none".to_owned(),
    }
}

// The only place that prints: this is a command.
#[allow(clippy::print_stdout)]
fn say(line: &str) {
    println!("{line}");
}

fn exit(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
