//! `quorumlock-lab compare` on real servers: the structure of its JSON, and exit codes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command::process::{Finished, command, finish, servers};

fn compare(arguments: &[&str]) -> Command {
    command("compare", arguments)
}

fn run(arguments: &[&str]) -> Finished {
    finish(compare(arguments))
}

/// The value with all measurements replaced by null, so that only the keys remain.
fn keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key, keys(value))).collect(),
        _ => Value::Null,
    }
}

#[track_caller]
fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

#[test]
fn both_modes_are_measured_the_same_way() {
    let Some(servers) = servers(4) else { return };
    let killable = servers[0].pid().is_some();
    drop(servers);
    let report = run(&["--seconds", "1", "--nodes", "3", "--seed", "11", "--json"]).expect(0);
    let report = report.json();
    assert_eq!(keys(&report["single"]), keys(&report["quorum"]));
    let environment = &report["environment"];
    assert_eq!((count(environment, "nodes"), count(environment, "seed")), (3, 11));
    for mode in ["single", "quorum"] {
        let mode = &report[mode];
        let (alone, parallel, contended) = (&mode["alone"], &mode["parallel"], &mode["contended"]);
        assert!(count(alone, "pairs") > 0, "{alone}");
        assert!(count(alone, "p50_us") <= count(alone, "p99_us"), "{alone}");
        assert!(count(parallel, "pairs") > 0, "{parallel}");
        assert!(count(parallel, "pairs_per_second") > 0, "{parallel}");

        let handovers = count(contended, "to_another_task") + count(contended, "to_another_locker");
        assert!(handovers > 0, "{contended}");
        assert!(count(contended, "handover_p50_us") <= count(contended, "handover_p99_us"));
        for unit in ["task", "locker"] {
            let share = |which| count(contended, &format!("grants_per_{unit}_{which}"));
            assert!(share("min") <= share("max"), "{contended}");
        }
        assert_eq!(count(contended, "overlaps"), 0, "without a fault: {contended}");
        assert_eq!(contended["tokens_unique"], true, "{contended}");
        assert_eq!(contended["tokens_increasing"], true, "{contended}");

        let killed = &mode["server_killed"];
        assert_eq!(killed.is_object(), killable, "{killed}");
        if killable {
            assert!(count(killed, "grants") > 0, "{killed}");
            assert!(count(killed, "down_ms") >= 300, "{killed}");
            assert!(count(killed, "overlaps") > 0 || count(killed, "overlap_longest_ms") == 0);
        }
    }
    if killable {
        let failed = |mode: &str| count(&report[mode]["server_killed"], "failed_attempts");
        assert!(failed("single") > 0, "its only server was dead");
    }
}

#[test]
fn people_read_both_modes_and_a_verdict() {
    let Some(_servers) = servers(2) else { return };
    let text = run(&["--seconds", "1", "--nodes", "1", "--tasks", "8"]).expect(0).stdout;
    for part in ["quorum of 1", "99 of 100 within", "Single: ", "Quorum: with 1 it cannot"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!text.contains("report"), "none was asked for: {text}");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names = names.by_ref().collect::<Vec<_>>();
    names.sort();
    names
}

fn lab(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("lab.json")).unwrap()).unwrap()
}

#[test]
fn a_report_is_judged_and_drawn_as_the_labs() {
    let Some(servers) = servers(4) else { return };
    let killable = servers[0].pid().is_some();
    drop(servers);
    let dir = tempfile::tempdir().unwrap();
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let path = out.to_str().unwrap();
    let asked = ["--seconds", "1", "--nodes", "3", "--tasks", "8", "--seed", "5", "--report", path];
    let text = run(&asked).expect(0).stdout;
    let last = text.lines().last().unwrap();
    assert_eq!(last, format!("report: {path}/report.html"));

    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for words in ["results as expected", "Mode S<", "Mode QQ<", "--seed 5", "the longest lease"] {
        assert!(page.contains(words), "{words:?} is not in the page");
    }
    let figures = names(&out.join("figures"));
    for figure in ["C1-modes", "C1-ecdf", "C1-S-process-s5-0-lanes", "C1-QQ-process-s5-0-lanes"] {
        assert!(figures.contains(&format!("{figure}.svg")), "{figures:?}");
    }
    let tables = names(&out.join("tables"));
    for table in ["results", "C1-results", "C1-ecdf", "free-locks"] {
        assert!(tables.contains(&format!("{table}.csv")), "{tables:?}");
    }

    let lab = lab(&out);
    let runs = lab["runs"].as_array().unwrap();
    assert_eq!(runs.len(), if killable { 4 } else { 2 }, "{lab}");
    for run in runs {
        assert!(count(&run["observed"], "grants") > 0, "{run}");
        let nodes = run["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), if run["mode"] == "S" { 1 } else { 3 }, "{run}");
        if run["scenario"] == "C1" || run["mode"] == "QQ" {
            assert_eq!((&run["expected"], &run["as_expected"]), (&"ok".into(), &true.into()));
        }
        let history = out.join("runs").join(run["run"].as_str().unwrap()).join("history.jsonl");
        let history = std::fs::read_to_string(history).unwrap();
        let granted = history.lines().filter(|line| line.contains(r#""op":"lock","phase":"ok""#));
        assert!(granted.clone().all(|line| line.contains(r#""nonce":""#)), "{run}");
        assert_eq!(granted.count() as u64, count(&run["observed"], "grants"), "{run}");
        let dead = history.lines().filter(|line| line.contains(r#""what":"dead""#)).count();
        assert_eq!(dead, if run["scenario"] == "C2" { 2 } else { 0 }, "killed, and back: {run}");
    }

    // The files on disk suffice to write the report again, and another comparison is not mixed with
    // them.
    let drawn = command("report", &[path, "--out", again.to_str().unwrap()]);
    finish(drawn).expect(0);
    assert_eq!(std::fs::read_to_string(again.join("report.html")).unwrap(), page);
    run(&asked).expect(64).says(&["has runs already"]);
}

#[test]
fn the_table_and_the_report_say_the_same() {
    let Some(servers) = servers(2) else { return };
    if servers[0].pid().is_none() {
        return; // given by URL: not killed
    }
    drop(servers);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let asked = ["--seconds", "1", "--nodes", "1", "--tasks", "8", "--json", "--report", path];
    let printed = run(&asked).expect(0).says(&["report: "]).json();
    for run in lab(dir.path())["runs"].as_array().unwrap() {
        let mode = &printed[if run["mode"] == "S" { "single" } else { "quorum" }];
        let (grants, overlaps, failed) = if run["scenario"] == "C1" {
            let (alone, parallel) = (&mode["alone"], &mode["parallel"]);
            let contended = &mode["contended"];
            let failed = [alone, parallel, contended].map(|phase| count(phase, "failed"));
            let pairs = count(alone, "pairs") + count(parallel, "pairs");
            (
                pairs + count(contended, "grants"),
                count(contended, "overlaps"),
                failed.iter().sum::<u64>(),
            )
        } else {
            let killed = &mode["server_killed"];
            let said = |what| count(killed, what);
            (said("grants"), said("overlaps"), said("failed_attempts"))
        };
        let seen = &run["observed"];
        assert_eq!(grants, count(seen, "grants"), "{run}");
        assert_eq!(overlaps, count(seen, "V"), "{run}");
        assert_eq!(failed, count(seen, "attempts_failed"), "{run}");
    }
}

#[test]
fn numbers_out_of_bounds_are_bad_usage() {
    run(&["--nodes", "0"]).expect(64).says(&["nodes of 0", "1 to 25"]);
    run(&["--seconds", "0"]).expect(64).says(&["measuring time"]);
    run(&["--tasks", "1"]).expect(64).says(&["tasks of 1"]);
    run(&["--seconds", "soon"]).expect(64).says(&["--seconds"]);
}

#[test]
fn without_a_server_program_it_says_how_to_get_one() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = compare(&["--seconds", "1"]);
    for variable in ["QUORUMLOCK_REDIS_URLS", "QUORUMLOCK_SERVER_BIN", "XDG_CACHE_HOME"] {
        command.env_remove(variable);
    }
    command.env("PATH", nowhere.path()).env("HOME", nowhere.path());
    finish(command).expect(69).says(&["get-server", "QUORUMLOCK_SERVER_BIN"]);
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let Some(servers) = servers(1) else { return };
    if servers[0].pid().is_none() {
        return; // given by URL: nothing is started
    }
    let temporary = tempfile::tempdir().unwrap();
    let left = || std::fs::read_dir(temporary.path()).unwrap().count();
    let mut child = compare(&["--seconds", "60", "--nodes", "3"])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while left() < 4 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its servers had started");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // A directory is removed after its server has ended, so the servers have ended too.
    assert_eq!(left(), 0);
}

#[test]
fn an_interrupt_keeps_what_was_recorded() {
    let Some(servers) = servers(1) else { return };
    if servers[0].pid().is_none() {
        return; // given by URL: nothing is started
    }
    let (temporary, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let asked = ["--seconds", "3", "--nodes", "3", "--report", dir.path().to_str().unwrap()];
    let mut child = compare(&asked)
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let recorded = |run: std::io::Result<std::fs::DirEntry>| {
        let history = run.unwrap().path().join("history.jsonl").metadata();
        history.is_ok_and(|history| history.len() > 0)
    };
    while !std::fs::read_dir(dir.path().join("runs")).is_ok_and(|mut runs| runs.any(recorded)) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before anything was recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    let lab = lab(dir.path());
    assert_eq!(lab["interrupted"], true, "{lab}");
    let seen = &lab["runs"][0]["observed"];
    assert!(count(seen, "grants") > 0, "{lab}");
    assert_eq!(count(seen, "V"), 0, "every release was told, also of tasks that were cut off");
    assert!(std::fs::read_to_string(dir.path().join("report.html")).unwrap().contains("Cut short"));
}
