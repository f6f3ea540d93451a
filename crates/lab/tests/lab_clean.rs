//! A run leaves nothing behind: no process, no directory of a server, also when it is cut short. A
//! program of its own, since it looks at all children of its process.

use std::fs;
use std::time::Duration;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::scenario::find;
use quorumlock_lab::servers::{ServerOptions, for_test};
use quorumlock_lab::trial::{Program, Trial};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind_and_what_was_recorded_stays() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    drop(servers);
    let program = Program { path: env!("CARGO_BIN_EXE_lab-worker").into(), arguments: Vec::new() };
    // The worker of L03 is stopped for most of the time: it must go, too.
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(1_500));
    for (id, cut_short_after) in [("L01", long), ("L01", short), ("L03", short)] {
        let scenario = find(id).expect("it is there");
        let trial = Trial { scenario, mode: Mode::R, seed: 1, repetition: 0, quick: true };
        let dir = tempfile::tempdir().unwrap();
        let interrupt = tokio::time::sleep(cut_short_after);
        let run = trial.carry_out(&program, dir.path(), interrupt).await.expect("carried out");
        assert_eq!(run.interrupted, cut_short_after == short, "{run:#?}");
        assert!(run.observed.grants > 0 && run.as_expected, "{run:#?}");
        assert_eq!(living_children(), Vec::<String>::new(), "{id}");
    }
}

/// All that run, with what they are; those that are dead and not yet waited for are none.
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
