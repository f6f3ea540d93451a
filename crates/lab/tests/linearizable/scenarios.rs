//! Scenarios of the lab, from the CSV file of each run.

use std::future::pending;
use std::io::Write as _;
use std::path::Path;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::{Attempt, Run, read_attempts};
use quorumlock_lab::runner::{Driver, Program, Trial, TrialError};
use quorumlock_lab::scenario::{all, find};
use quorumlock_sim::fresh_start;
use quorumlock_testbed::skip;

use crate::operations::{Verdict, by_name, verdict};

async fn carry_out(trial: &Trial, driver: Driver, dir: &Path) -> Result<Run, TrialError> {
    let path = env!("CARGO_BIN_EXE_quorumlock-lab").into();
    let program = Program { path, arguments: vec!["worker".into()] };
    trial.carry_out_on(driver, &program, dir, pending()).await
}

/// Asserts that the checker and the lab's judges agree on a run.
fn agree(run: &Run, dir: &Path) -> Verdict {
    let attempts = read_attempts(&dir.join("attempts.csv")).unwrap();
    let granted = attempts.iter().filter(|attempt| attempt.granted_ns.is_some());
    assert_eq!(granted.count() as u64, run.observed.grants, "{run:#?}");
    let found = verdict(by_name(&attempts).values());
    assert_eq!(found.excludes, run.observed.violations == 0, "{run:#?}");
    if found.excludes {
        // Holders that never believed have tokens that only the lab's judges see.
        let never = |attempt: &Attempt| attempt.believed_until_ns <= attempt.granted_ns;
        let unseen = attempts.iter().any(never);
        let ordered = run.observed.tokens_out_of_order == 0;
        assert!(found.fences == ordered || (found.fences && unseen), "{found:?}: {run:#?}");
    }
    found
}

/// In each mode that the simulation can carry out, under a fresh seed.
#[tokio::test]
async fn the_checker_agrees_on_the_labs_scenarios_in_the_simulation() {
    let seed = fresh_start();
    let _ = writeln!(std::io::stderr(), "fresh seed of the scenarios: {seed}");
    let (mut judged, mut fallen) = (0, 0);
    for scenario in all() {
        for mode in Mode::ALL.into_iter().filter(|mode| Driver::Sim.runs(scenario, *mode)) {
            let dir = tempfile::tempdir().unwrap();
            let trial = Trial { quick: true, ..Trial::new(scenario, mode, seed) };
            let run = match carry_out(&trial, Driver::Sim, dir.path()).await {
                // A seed may draw a fault that the simulation lacks.
                Err(TrialError::Missing(_)) => continue,
                run => run.unwrap(),
            };
            judged += 1;
            fallen += usize::from(!agree(&run, dir.path()).excludes);
        }
    }
    assert!(judged > 100 && fallen > 20, "exclusion fell in {fallen} of {judged} runs");
}

/// A scenario on real servers.
async fn on_servers(id: &str, mode: Mode) -> Option<Verdict> {
    let dir = tempfile::tempdir().unwrap();
    let scenario = find(id).unwrap();
    let trial = Trial { quick: true, ..Trial::new(scenario, mode, 1) };
    match carry_out(&trial, Driver::Process, dir.path()).await {
        Err(TrialError::NoServer(why)) => {
            skip("QUORUMLOCK_REQUIRE_SERVER", &why.to_string());
            None
        }
        run => {
            let run = run.unwrap();
            assert!(run.as_expected, "{run:#?}");
            Some(agree(&run, dir.path()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_finds_where_exclusion_falls_on_real_servers() {
    // A broken lock, a node that forgets, permits that each node counts.
    for (id, mode) in [("L31O", Mode::Q5), ("L10", Mode::Q5), ("P1C", Mode::Q5)] {
        let Some(found) = on_servers(id, mode).await else { return };
        assert!(!found.excludes, "{id}");
    }
    for (id, mode) in [("L10", Mode::QQ), ("P1", Mode::QQ), ("RW1", Mode::S), ("N1", Mode::S)] {
        let Some(found) = on_servers(id, mode).await else { return };
        assert!(found.excludes && found.fences, "{id}: {found:?}");
    }
}
