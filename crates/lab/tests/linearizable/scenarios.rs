//! Scenarios of the lab in the simulation.

use std::io::Write as _;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::runner::{Driver, Trial, TrialError};
use quorumlock_lab::scenario::all;
use quorumlock_sim::fresh_start;

use crate::runs::{agree, carry_out};

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
