//! `quorumlock-lab run --resume`: which runs of an earlier invocation are missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quorumlock_command::Failure;
use quorumlock_lab::record::Lab;
use quorumlock_lab::runner::{Driver, Trial, environment};

use crate::report;

/// Why runs cannot be added to a directory.
#[derive(Debug, thiserror::Error)]
enum CannotResume {
    #[error("{} has runs of seed {before}, not {given}", .dir.display())]
    OtherSeed { dir: PathBuf, before: u64, given: u64 },
    /// Figures of two programs are not one result.
    #[error("{} has runs of {before}, and this is {now}: name another directory", .dir.display())]
    OtherProgram { dir: PathBuf, before: String, now: String },
}

impl From<CannotResume> for Failure {
    fn from(error: CannotResume) -> Self {
        Self::usage(error.to_string())
    }
}

/// The record of the earlier invocation, if runs of this one can be added to it.
pub(crate) fn read(dir: &Path, seed: Option<u64>) -> Result<Lab, Failure> {
    let before = report::read(dir)?;
    let dir = dir.to_owned();
    if let Some(given) = seed.filter(|given| *given != before.seed) {
        return Err(CannotResume::OtherSeed { dir, before: before.seed, given }.into());
    }
    let now = environment::gather(env!("CARGO_PKG_VERSION")).program();
    let program = before.environment.program();
    if program != now {
        return Err(CannotResume::OtherProgram { dir, before: program, now }.into());
    }
    Ok(before)
}

/// Leaves the trials that have no complete run yet, and the record with the complete runs alone.
pub(crate) fn missing(mut before: Lab, trials: &mut Vec<(Trial, Driver)>) -> Lab {
    before.runs.retain(|run| !run.interrupted);
    before.interrupted = false;
    before.skipped.clear();
    before.resumed.push(std::env::args().collect());
    let complete = before.runs.iter().map(|run| run.run.clone()).collect::<BTreeSet<_>>();
    trials.retain(|(trial, driver)| !complete.contains(&trial.name_on(*driver)));
    before
}
