//! Fleets of the simulation: fresh seeds, and planted bugs.

use std::collections::BTreeMap;
use std::io::Write as _;

use quorumlock_sim::{Bug, Invariant, Outcome, fresh_start, run_on};

use crate::operations::{Hold, OfName, Verdict, verdict};

/// `make histories` judges 1,000.
const SEEDS: u64 = 100;
const THREADS: u64 = 2;

fn by_name(outcome: &Outcome) -> BTreeMap<String, OfName> {
    let mut names = BTreeMap::<String, OfName>::new();
    for belief in &outcome.beliefs {
        let (reads, token) = (belief.claim.reads(), belief.token);
        let (asked, granted, until) = (belief.asked, belief.granted, belief.until);
        for name in belief.claim.names() {
            let of = names.entry(name.to_string()).or_default();
            of.places = 1;
            if granted < until {
                of.holds.push(Hold { reads, token, asked, granted, until });
            }
        }
    }
    names
}

fn judged(outcome: &Outcome) -> Verdict {
    verdict(by_name(outcome).values())
}

/// What the simulation's own invariants say.
fn own(outcome: &Outcome) -> Verdict {
    let stands = |of: &[Invariant]| of.iter().all(|one| !outcome.expected.contains(one));
    let excludes = stands(&[Invariant::Exclusion]);
    Verdict { excludes, fences: excludes && stands(&[Invariant::Tokens, Invariant::Order]) }
}

/// Some holders learn of a grant when their lease is over. They never believe, so the checker does
/// not see their tokens, and the invariants do.
fn agree(seed: u64, bug: Option<Bug>) -> Verdict {
    let outcome = run_on(seed, bug);
    let (ours, theirs) = (own(&outcome), judged(&outcome));
    assert_eq!(ours.excludes, theirs.excludes, "seed {seed} with {bug:?}");
    let unseen = outcome.beliefs.iter().any(|belief| belief.granted == belief.until);
    let fences = ours.fences == theirs.fences || (theirs.fences && unseen);
    assert!(fences, "seed {seed} with {bug:?}: {ours:?}, {theirs:?}");
    theirs
}

/// One seed in four breaks an assumption, and exclusion may fall.
#[test]
fn the_checker_agrees_in_seeds_that_nobody_has_run() {
    let first = fresh_start();
    let given = std::env::var("HISTORIES").ok().and_then(|seeds| seeds.parse().ok());
    let end = first + given.unwrap_or(SEEDS);
    let _ = writeln!(std::io::stderr(), "fresh seeds: {first} to {}", end - 1);
    let fallen = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            scope.spawn(move || {
                let seeds = (first..end).skip(thread as usize).step_by(THREADS as usize);
                seeds.filter(|seed| !agree(*seed, None).excludes).count()
            })
        });
        let threads = threads.collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    let _ = writeln!(std::io::stderr(), "exclusion fell in {fallen} seeds, and both say so");
}

/// Planted bugs, and a seed in which each lets two hold, or gives a token that is not larger. For
/// the other bugs no such seed is known, or they break promises that no history of holds shows.
const PLANTED: [(Bug, u64); 10] = [
    (Bug::OwnerNotNonce, 17),
    (Bug::ReleasesAnybodys, 1),
    (Bug::SilenceIsGrant, 4),
    (Bug::QuorumOfReachable, 7),
    (Bug::UptimeWitness, 92),
    (Bug::SlotOfOthers, 20),
    (Bug::AcceptsEqual, 21),
    (Bug::GrantedIsAccepted, 0),
    (Bug::CopiesNoMarks, 1_290),
    (Bug::HandsOldToken, 26),
];

/// After a change of the plans a bug may need another seed.
#[test]
fn it_finds_planted_bugs() {
    for (bug, seed) in PLANTED {
        let (without, with) = (agree(seed, None), agree(seed, Some(bug)));
        assert!(without.fences, "seed {seed} without {bug:?}");
        let two_hold = bug.caught_by().contains(&Invariant::Exclusion);
        assert!(!with.fences && with.excludes != two_hold, "seed {seed} with {bug:?}: {with:?}");
    }
}
