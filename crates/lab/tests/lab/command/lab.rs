//! Scenarios are listed, carried out and reported: exit codes, files, and an interrupt.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorumlock_lab::report::scenarios_page;
use rustix::process::{Pid, Signal, kill_process};

use crate::command::process::{Finished, command, finish, servers};
use crate::lab_dir::LabDir;

fn lab(arguments: &[&str]) -> Command {
    let (subcommand, arguments) = arguments.split_first().unwrap();
    command(subcommand, arguments)
}

fn run(arguments: &[&str]) -> Finished {
    finish(lab(arguments))
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap()
}

#[test]
fn scenarios_are_listed_with_what_theory_says() {
    let listed = run(&["list", "--json"]).expect(0).json();
    let scenarios = listed["scenarios"].as_array().unwrap();
    let l16 = scenarios.iter().find(|scenario| scenario["id"] == "L16").unwrap();
    assert_eq!(l16["expected"][0]["mode"], "R");
    assert_eq!(l16["expected"][0]["expected"], "violation");
    let text = run(&["list"]).expect(0).stdout;
    assert!(text.contains("L10") && text.contains("violation"), "{text}");
    let page = run(&["list", "--markdown"]).expect(0).stdout;
    assert_eq!(page, scenarios_page());
    run(&["list", "--markdown", "--json"]).expect(64);
}

#[test]
fn results_are_a_page_of_the_documentation() {
    let lab = LabDir::sound();
    let page = run(&["report", "--markdown", path(lab.path())]).expect(0).stdout;
    assert!(page.contains("| L16 | -   | violation | ok  | ok  | fenced |"), "{page}");
    let hostile = LabDir::hostile();
    let page = run(&["report", "--markdown", path(hostile.path())]).expect(1).stdout;
    assert!(page.contains("- L42-Q5-process-s42-0: two holders at the same time"), "{page}");
}

#[test]
fn bad_usage_names_what_there_is() {
    run(&["run", "L99"]).expect(64).says(&["L99", "L01", "L16"]);
    run(&["run"]).expect(64).says(&["--all", "L01"]);
    run(&["run", "L01", "--modes", "X"]).expect(64).says(&["S, S1, R"]);
    run(&["run", "L16", "--modes", "S"]).expect(64).says(&["none of these"]);
    run(&["replay", "nowhere"]).expect(64).says(&["nowhere"]);
}

#[test]
fn a_run_is_recorded_judged_and_reported() {
    let Some(_servers) = servers(1) else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let arguments =
        ["run", "l04", "--modes", "S,QF", "--quick", "--seed", "3", "--json", "--out", path(&out)];
    let report = run(&arguments).expect(0).json();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{report}");
    assert!(runs[0]["observed"]["E"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(runs[1]["observed"]["E"], 0, "{report}");
    assert!(runs[1]["observed"]["St"].as_u64().unwrap() > 0, "{report}");
    assert!(runs.iter().all(|run| run["as_expected"] == true), "{report}");
    assert!(out.join("runs/L04-QF-process-s3-0/history.jsonl").exists());
    // Each run's file has the whole plan.
    let files = ["S", "QF"].map(|mode| {
        let file = out.join(format!("runs/L04-{mode}-process-s3-0/run.json"));
        serde_json::from_str::<serde_json::Value>(&std::fs::read_to_string(file).unwrap()).unwrap()
    });
    for (file, voters) in files.iter().zip([1, 5]) {
        let plan = &file["plan"];
        assert_eq!(plan["servers"]["voters"], voters, "{file}");
        assert_eq!(plan["clients"][0]["work"]["failpoint_ms"], 500, "{file}");
        assert!(plan["schedule"].as_array().unwrap().len() > 3, "{file}");
        assert_eq!(plan["locking"]["lease_ms"], file["lease_ms"], "{file}");
        assert_eq!(file["quick"], true, "{file}");
        assert!(file["timeouts"]["step_ms"].as_u64() > Some(0), "{file}");
        assert!(!file["nodes"][0]["version"].as_str().unwrap().is_empty(), "{file}");
    }
    let text = run(&["report", path(&out)]).expect(0).stdout;
    assert!(text.contains("fenced"), "{text}");
    // The same lab, with a result that is not as expected.
    let file = out.join("lab.json");
    let record = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, record.replacen("\"as_expected\": true", "\"as_expected\": false", 1))
        .unwrap();
    run(&["report", path(&out)]).expect(1);
}

#[test]
fn runs_are_not_overwritten_and_missing_ones_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let simulated = |more: &[&str]| {
        let words = ["run", "L01", "--modes", "S", "--driver", "sim", "--quick", "--out"];
        run(&[&words[..], &[path(&out)], more].concat())
    };
    simulated(&["--seed", "3"]).expect(0);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("out-again"), "the page names a fresh directory");
    let history = out.join("runs/L01-S-sim-s3-0/history.jsonl");
    let written = || history.metadata().unwrap().modified().unwrap();
    let before = written();
    simulated(&["--seed", "3"]).expect(64).says(&["has runs already", "--resume"]);
    run(&["replay", path(&out), "--out", path(&out)]).expect(64).says(&["has runs already"]);
    simulated(&["--seed", "4", "--resume"]).expect(64).says(&["of seed 3, not 4"]);
    simulated(&["--resume", "--repeat", "2"]).expect(0);
    assert_eq!(written(), before, "a complete run is not repeated");
    let record = || std::fs::read_to_string(out.join("lab.json")).unwrap();
    let lab: serde_json::Value = serde_json::from_str(&record()).unwrap();
    let runs = lab["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap());
    assert_eq!(runs.collect::<Vec<_>>(), ["L01-S-sim-s3-0", "L01-S-sim-s3-1"]);
    assert_eq!(lab["resumed"][0][1], "run", "{lab}");
    // A run that was interrupted is carried out again.
    let cut = record().replacen("\"interrupted\": false", "\"interrupted\": true", 2);
    std::fs::write(out.join("lab.json"), cut).unwrap();
    simulated(&["--resume"]).expect(0);
    assert!(written() > before && !record().contains("\"interrupted\": true"), "{}", record());
    // Runs of another program are not added to.
    let other = record().replace("\"build\": \"", "\"build\": \"other ");
    std::fs::write(out.join("lab.json"), other).unwrap();
    simulated(&["--resume"]).expect(64).says(&["other", "name another directory"]);
}

#[test]
fn a_plan_of_ones_own_is_carried_out_and_replayed() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/plans/restart_empty.toml");
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.toml");
    let text = std::fs::read_to_string(plan).unwrap();
    std::fs::write(&bad, text.replace("tail_ms = 1000", "tail_ms = 600001")).unwrap();
    run(&["run", "--plan", path(&bad)]).expect(64).says(&["bad.toml", "tail_ms is 600001: 0 to"]);

    let Some(_servers) = servers(5) else { return };
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let arguments = ["run", "--plan", plan, "--seed", "3", "--json", "--out", path(&out)];
    let report = run(&arguments).expect(0).json();
    let runs = report["runs"].as_array().unwrap();
    let modes = runs.iter().map(|run| run["mode"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(modes, ["Q5", "QQ", "S"], "{report}");
    let fell = runs.iter().map(|run| run["observed"]["V"].as_u64() > Some(0)).collect::<Vec<_>>();
    assert_eq!(fell, [true, false, true], "{report}");
    assert!(out.join("runs/EMPTY-S-process-s3-0/attempts.csv").exists());
    // The plan is kept with its results.
    run(&["replay", path(&out), "--out", path(&again)]).expect(0).says(&["all verdicts agree"]);
    assert!(again.join("plans/EMPTY.toml").exists());
}

#[test]
fn an_interrupt_leaves_nothing_but_the_record_behind() {
    let Some(_servers) = servers(1) else { return };
    let (temporary, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let left = || std::fs::read_dir(temporary.path()).unwrap().count();
    let out = dir.path().join("out");
    let mut child = lab(&["run", "L01", "--modes", "R", "--seed", "3", "--out", path(&out)])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let history = out.join("runs/L01-R-process-s3-0/history.jsonl");
    while !history.metadata().is_ok_and(|data| data.len() > 0) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before anything happened");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(left(), 0, "a directory goes after its server");
    let record = std::fs::read_to_string(out.join("lab.json")).unwrap();
    assert!(record.contains("\"interrupted\": true"), "{record}");
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let nodes = record["runs"][0]["nodes"].as_array().unwrap();
    let roles = nodes.iter().map(|node| node["role"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(roles, ["master", "replica"], "what was known is kept: {record}");
}
