//! A sweep over takeover delays: what it shows, what is on disk, what is drawn.

use std::fs;
use std::path::Path;

use quorumlock_lab::record::read_attempts;
use quorumlock_testbed::skip;
use serde_json::Value;

use crate::command::process::{Finished, command, finish, servers};

fn run(arguments: &[&str]) -> Finished {
    let (subcommand, arguments) = arguments.split_first().unwrap();
    finish(command(subcommand, arguments))
}

/// V and E of a run together. Whether a run without a delay shows V depends on which comes first: the
/// next renewal of the first holder, which notices a clock that was set, or the grant to the second.
fn broken(run: &Value) -> u64 {
    run["observed"]["V"].as_u64().unwrap() + run["observed"]["E"].as_u64().unwrap()
}

fn assert_drawn(dir: &Path, scenarios: &[&str], modes: &[&str]) {
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert_eq!(page.matches("<h3>Takeover delay</h3>").count(), scenarios.len());
    for id in scenarios {
        let figure = fs::read_to_string(dir.join(format!("figures/{id}-delays.svg"))).unwrap();
        for mode in modes {
            assert!(figure.contains(&format!(">{mode}</text>")), "{mode} in {figure}");
        }
        let table = fs::read_to_string(dir.join(format!("tables/{id}-results.csv"))).unwrap();
        assert!(table.lines().next().unwrap().contains("takeover_delay_ms"), "{table}");
    }
}

/// The longest leases of S1 and QQ are 4.5 s, and L23 needs up to 0.7 of one; L03 needs 3 s.
#[test]
fn a_delay_that_suffices_ends_what_is_seen_without_one() {
    let Some(_servers) = servers(5) else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let sweep = ["run", "L03", "L23", "--modes", "S1,QQ", "--takeover-delay", "0s,3200ms"];
    let options = ["--quick", "--seed", "3", "--json", "--out", out];
    let finished = run(&[&sweep[..], &options].concat()).expect(0);
    let report = finished.json();
    let runs = report["runs"].as_array().unwrap();
    if runs.len() < 8 {
        return skip("QUORUMLOCK_REQUIRE_FAKETIME", &finished.stderr);
    }
    for run in runs {
        let without = run["takeover_delay_ms"] == 0;
        assert_eq!(broken(run) > 0, without, "{run:#}");
        assert_eq!(run["expected"], if without { "violation" } else { "ok" });
    }
    let run_dir = dir.path().join("runs/L03-S1-process-s3-0-d3200");
    let attempts = read_attempts(&run_dir.join("attempts.csv")).unwrap();
    assert!(attempts.iter().all(|attempt| attempt.takeover_delay_ms == 3_200), "{attempts:?}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(run_dir.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["takeover_delay_ms"], 3_200);
    // What `run` has drawn goes, and `report` draws it again.
    fs::remove_dir_all(dir.path().join("figures")).unwrap();
    let text = run(&["report", out]).expect(0).stdout;
    assert!(text.contains("takeover delay 3200 ms"), "{text}");
    assert_drawn(dir.path(), &["L03", "L23"], &["S1", "QQ"]);
}

#[test]
fn the_simulation_sweeps_all_four_scenarios_and_repeats_them() {
    let scenarios = ["L03", "L05", "L23", "L25"];
    let dir = tempfile::tempdir().unwrap();
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let [out, again] = [&out, &again].map(|dir| dir.to_str().unwrap());
    let modes = ["--modes", "S,S1,Q,QQ", "--takeover-delay", "0s,100ms,7s"];
    let options = ["--driver", "sim", "--seed", "3", "--json", "--out", out];
    let report = run(&[&["run"], &scenarios[..], &modes, &options].concat()).expect(0).json();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4 * 4 * 3);
    for run in runs {
        let suffices = run["takeover_delay_ms"] == 7_000;
        assert_eq!(broken(run) == 0, suffices, "{run:#}");
    }
    assert_drawn(Path::new(out), &scenarios, &["S", "S1", "Q5", "QQ"]);
    run(&["replay", out, "--out", again]).expect(0).says(&["all verdicts agree"]);
    let history = "runs/L25-QQ-sim-s3-0-d7000/history.jsonl";
    let read = |dir: &str| fs::read(Path::new(dir).join(history)).unwrap();
    assert!(read(out) == read(again), "{history}");
}

#[test]
fn a_delay_that_means_nothing_is_bad_usage() {
    run(&["run", "L03", "L10", "--takeover-delay", "1s"]).expect(64).says(&["not for L10"]);
    for wrong in ["11min", "1us", "soon"] {
        run(&["run", "L03", "--takeover-delay", wrong]).expect(64).says(&["--takeover-delay"]);
    }
}
