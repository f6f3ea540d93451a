//! What the commands that leave files say where they cannot, and which directories they refuse.

use std::path::{Path, PathBuf};

use quorumlock_command::{Failure, exit};

use crate::report;

/// The failure to write to this place.
pub(crate) fn cannot_write(out: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit::OUTPUT, format!("cannot write to {}: {error}", out.display()))
}

/// The directory has runs of an earlier invocation, which new runs would overwrite.
#[derive(Debug, thiserror::Error)]
#[error("{} has runs already: name another directory{}", .dir.display(), or_resume(*.resumable))]
pub(crate) struct HasRuns {
    dir: PathBuf,
    /// Whether the command can add runs to it.
    resumable: bool,
}

fn or_resume(resumable: bool) -> &'static str {
    if resumable { ", or add the runs that are missing with --resume" } else { "" }
}

impl From<HasRuns> for Failure {
    fn from(error: HasRuns) -> Self {
        Self::usage(error.to_string())
    }
}

/// Refuses a directory that has runs, or the record of some.
pub(crate) fn require_fresh(dir: &Path, resumable: bool) -> Result<(), HasRuns> {
    let files = std::fs::read_dir(dir.join("runs")).is_ok_and(|mut runs| runs.next().is_some());
    // The record alone may be all that is kept. One without runs is of a command that could run nothing.
    let record = dir.join("lab.json").exists();
    if files || record && !report::read(dir).is_ok_and(|lab| lab.runs.is_empty()) {
        return Err(HasRuns { dir: dir.to_owned(), resumable });
    }
    Ok(())
}
