//! Schedules of the lab reveal deliberate bugs.

use super::*;
use crate::history::Reader;
use crate::judge::{Summarizer, overlaps};
use crate::scenario::find;

/// The number of overlaps: two holders at the same time.
fn violations(id: &str, mode: Mode, seed: u64, bug: Option<Bug>) -> usize {
    let scenario = find(id).expect("it is there");
    let plan = scenario.plan(mode, seed, 0, true);
    let dir = tempfile::tempdir().expect("a directory");
    let history = dir.path().join("history.jsonl");
    let run = SimRun { run: "test", seed, repetition: 0, mode, plan: &plan, bug };
    run.execute(&history).expect("it runs");
    let mut summarizer = Summarizer::default();
    for event in Reader::open(&history).expect("written") {
        summarizer.observe(&event.expect("an event"));
    }
    let summary = summarizer.close();
    assert!(summary.holds.len() > 1, "{id} {mode} seed {seed}: {summary:?}");
    overlaps(&summary.holds).len()
}

#[test]
fn a_lease_that_counts_where_it_was_re_created_unproven_is_seen() {
    for mode in [Mode::QQ, Mode::QF] {
        for seed in 0..10 {
            assert_eq!(violations("L36", mode, seed, None), 0, "{mode} seed {seed}");
            let seen = violations("L36", mode, seed, Some(Bug::RecreatesUnproven));
            assert!(seen > 0, "{mode} seed {seed}");
        }
    }
}

#[test]
fn a_node_that_is_believed_by_its_uptime_is_seen() {
    // Only seeds in which the node has lost its data and is an hour behind.
    let behind = |seed: &u64| {
        let plan = find("L26").expect("it is there").plan(Mode::QQ, *seed, 0, true);
        !plan.servers.appendonly
    };
    for seed in (0..20).filter(behind) {
        assert_eq!(violations("L26", Mode::QQ, seed, None), 0, "seed {seed}");
        let seen = violations("L26", Mode::QQ, seed, Some(Bug::UptimeWitness));
        assert!(seen > 0, "seed {seed}");
    }
}
