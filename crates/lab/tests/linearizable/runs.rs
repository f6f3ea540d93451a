//! Runs of scenarios, from the CSV file of each.

use std::future::pending;
use std::path::Path;

use quorumlock_lab::record::{Attempt, Run, read_attempts};
use quorumlock_lab::runner::{Driver, Program, Trial, TrialError};

use crate::operations::{Verdict, by_name, verdict};

/// Carries out a trial, whose clients are processes of the lab's command.
pub(crate) async fn carry_out(
    trial: &Trial,
    driver: Driver,
    dir: &Path,
) -> Result<Run, TrialError> {
    let path = env!("CARGO_BIN_EXE_quorumlock-lab").into();
    let program = Program { path, arguments: vec!["worker".into()] };
    trial.carry_out_on(driver, &program, dir, pending()).await
}

/// Asserts that the checker and the lab's judges agree on a run.
pub(crate) fn agree(run: &Run, dir: &Path) -> Verdict {
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
