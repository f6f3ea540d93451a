//! Plans of one's own: read from files, and kept beside their results, so that they can be replayed.

use std::fs;
use std::path::{Path, PathBuf};

use quorumlock_command::Failure;
use quorumlock_lab::scenario::{OwnPlan, Scenario};

use crate::output::cannot_write;

/// Reads a plan as a scenario.
pub(crate) fn read(file: &Path) -> Result<&'static Scenario, Failure> {
    parse(file).map(Scenario::own)
}

/// Copies plans into the directory of their results.
pub(crate) fn keep(plans: &[PathBuf], out: &Path) -> Result<(), Failure> {
    for plan in plans {
        let file = out.join("plans").join(format!("{}.toml", parse(plan)?.id()));
        let kept = fs::create_dir_all(out.join("plans")).and_then(|()| fs::copy(plan, &file));
        kept.map_err(|error| cannot_write(&file, &error))?;
    }
    Ok(())
}

/// The plan of this scenario in a directory of results, if it is there.
pub(crate) fn kept(dir: &Path, id: &str) -> Option<PathBuf> {
    let named = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == id);
    all_kept(dir).into_iter().find(named)
}

/// All plans in a directory of results.
pub(crate) fn all_kept(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("plans")).into_iter().flatten().flatten();
    let mut files = files.map(|file| file.path()).collect::<Vec<_>>();
    files.sort_unstable();
    files
}

fn parse(file: &Path) -> Result<OwnPlan, Failure> {
    let bad = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    OwnPlan::parse(&text).map_err(|error| bad(error.to_string()))
}
