//! `quorumlock-lab report`: what it writes, and its errors for directories that are not of the lab.

use std::fs;

use serde_json::{Value, json};

use crate::command::process::{command, finish};

fn report(arguments: &[&str]) -> (Option<i32>, String, String) {
    let done = finish(command("report", arguments));
    (done.code, done.stdout, done.stderr)
}

fn lab_without_runs() -> Value {
    json!({
        "schema": 1, "command_line": ["quorumlock-lab", "run", "L01"], "seed": 7,
        "interrupted": true, "runs": [],
        "environment": {
            "quorumlock": "0.1.0", "commit": null, "dirty": null, "build": "debug", "rustc": null,
            "kernel": "", "cpu": "", "cpus": 1, "memory_bytes": 0, "load_before": [0, 0, 0],
            "server": "", "clocksource": null
        }
    })
}

#[test]
fn a_lab_gets_its_report_wherever_it_is_wanted() {
    let (lab, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(lab.path().join("lab.json"), lab_without_runs().to_string()).unwrap();
    let (from, to) = (lab.path().to_str().unwrap(), out.path().to_str().unwrap());
    let (code, said, _) = report(&[from, "--out", to, "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["as_expected"]), (Some(0), &json!(true)), "{said}");
    assert!(fs::read_to_string(out.path().join("report.html")).unwrap().contains("Cut short"));
    assert!(!lab.path().join("report.html").exists());
    let (code, said, _) = report(&[from]);
    assert!(code == Some(0) && said.contains("report.html"), "{said}");
    assert!(lab.path().join("tables/results.csv").exists());
}

#[test]
fn what_is_no_lab_is_bad_usage() {
    let empty = tempfile::tempdir().unwrap();
    let (code, _, said) = report(&[empty.path().to_str().unwrap()]);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("neither a lab.json nor a run"), "{said}");
    assert_eq!(report(&[]).0, Some(64));
}
