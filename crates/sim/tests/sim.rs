//! Tests of the simulation: no violation while the assumptions hold, violations where some are
//! broken, the same run for the same seed, and no planted bug that survives.

use std::collections::BTreeSet;
use std::io::Write as _;

use quorumlock_sim::{Bug, Invariant, SeedSummary, fresh_start, run, run_all};

/// `make sim` runs 20,000 seeds.
const SEEDS: u64 = 300;

/// How many seeds nobody has run: each run of the tests draws others.
const FRESH: u64 = 150;

#[test]
fn no_guarantee_falls_while_what_it_needs_stands() {
    let tally = run_all(0, SEEDS, 2);
    assert_no_violation(&tally);
    assert_eq!(tally.never_seen(), [], "the faults and the workload reach too little");
    assert_breaks_seen(&tally);
}

/// The seeds of the test above never change. Fresh seeds reach other states.
#[test]
fn no_guarantee_falls_in_seeds_that_nobody_has_run() {
    let first = fresh_start();
    // `make quick` sets it.
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(FRESH);
    say(&format!("fresh seeds: {first} to {}", first + seeds - 1));
    assert_no_violation(&run_all(first, seeds, 2));
}

fn assert_no_violation(tally: &SeedSummary) {
    let fell = tally.violations.iter().map(|fell| format!("{fell}\n  replay: {}", fell.replay()));
    let fell = fell.collect::<Vec<_>>();
    assert!(fell.is_empty(), "{}", fell.join("\n"));
}

/// Writes around the test harness, which holds back the output of a test until it fails.
fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// A simulation in which exclusion and tokens never fail, even when nodes forget, proves nothing.
fn assert_breaks_seen(tally: &SeedSummary) {
    for invariant in [Invariant::Lemma, Invariant::Exclusion, Invariant::Tokens] {
        assert!(tally.expected.contains_key(&invariant), "{invariant:?} never fell");
    }
}

/// Regressions. In the first two seeds a client dropped a release that a replica had refused, so that
/// the lock stayed there once the replica was a master again. In the others a waiter that met an empty
/// script cache, or in the next two a replica, left a queue entry behind, to which the lock was handed
/// off; in the next one a caller that won without its home node left one there, and ended. In the next
/// two a caller that was handed the lock left the queue as that attempt, and so released the lock. In
/// the next one the simulation froze a fast clock for too long: it differed by more than the bound.
/// In the next one a replica refused a raise, and the window no longer counted that node: the lease
/// was lost at the next no. In the next three a call took a handoff to a request that it was releasing, and
/// a release served a writer and the readers behind that one. In the last one two waiters who arrived at
/// once yielded to each other in strict order, thousands of times.
#[test]
fn what_was_red_once_is_not_red_again() {
    for seed in [
        154,
        157,
        67_586_946_238_513_274,
        67_586_946_238_513_358,
        516,
        2_450_974_190_862_572,
        50_270_465_150_681_176,
        62_466_307_097_887_986,
        3_944_185_019_238_066,
        62_466_307_097_887_923,
        12_962_739_093_766_385,
        30_534_089_614_295_060,
        390,
        11_383_569_494_573_070,
        45_264_491_570_528_480,
        60_031_277_922_779_161,
    ] {
        let violation = run(seed, None, 0).violation;
        assert!(violation.is_none(), "seed {seed}: {violation:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_is_another() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let (once, again) = (run(seed, None, 0), run(seed, None, 0));
        assert_eq!((once.hash, once.events), (again.hash, again.events), "seed {seed}");
        assert!(hashes.insert(once.hash), "seed {seed} is another seed's run");
    }
}

/// Each planted bug is caught by one of its invariants, in the seed and after the number of events
/// that docs/SIMULATION.md lists. After a change of the plans, `--bin sim -- --mutants --only`
/// finds new seeds.
#[test]
fn planted_bugs_are_found() {
    let page = include_str!("../../../docs/SIMULATION.md");
    let mut stale = String::new();
    for bug in Bug::ALL {
        let Some(seed) = bug.first_seed() else { continue };
        let outcome = run(seed, Some(bug), 0);
        let by = outcome.violation.map(|violation| violation.invariant());
        let Some(by) = by.filter(|by| bug.caught_by().contains(by)) else {
            stale += &format!("{bug:?} survived seed {}: {}\n", outcome.seed, bug.what());
            continue;
        };
        let row = format!(
            "| {bug:?} | {} | {by:?} | {} | {} |",
            bug.what(),
            outcome.seed,
            outcome.events
        );
        if !page.contains(&row) {
            stale += &format!("docs/SIMULATION.md lacks: {row}\n");
        }
    }
    assert!(stale.is_empty(), "{stale}");
}
