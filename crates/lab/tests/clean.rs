//! A run leaves no process and no server directory behind, even if it is cut short. A separate
//! program, because it looks at all children of its process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::runner::{Program, Trial};
use quorumlock_lab::scenario::find;
use quorumlock_testbed::servers::{ServerOptions, for_test};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind_and_what_was_recorded_stays() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    drop(servers);
    let program = Program {
        path: env!("CARGO_BIN_EXE_quorumlock-lab").into(),
        arguments: vec!["worker".into()],
    };
    // The worker of L03 is stopped most of the time, and must be ended too.
    for (id, cut_short) in [("L01", false), ("L01", true), ("L03", true)] {
        let scenario = find(id).expect("it is there");
        let trial = Trial { quick: true, ..Trial::new(scenario, Mode::R, 1) };
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.jsonl");
        let interrupt = async {
            while !cut_short || !has_grant(&history) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let run = trial.carry_out(&program, dir.path(), interrupt).await.expect("carried out");
        assert_eq!(run.interrupted, cut_short, "{run:#?}");
        assert!(run.observed.grants > 0 && run.as_expected, "{run:#?}");
        assert_eq!(living_children(), Vec::<String>::new(), "{id}");
    }
}

fn has_grant(history: &Path) -> bool {
    let recorded = fs::read_to_string(history).unwrap_or_default();
    recorded.lines().any(|line| line.contains(r#""op":"lock","phase":"ok""#))
}

/// All running child processes. Zombies are not counted.
fn living_children() -> Vec<String> {
    let mut living = Vec::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
            if !status.is_empty() && !status.contains("State:\tZ") {
                living.push(status.lines().take(3).collect::<Vec<_>>().join(" "));
            }
        }
    }
    living
}
