use std::fmt;
use std::path::{Path, PathBuf};

use quorumlock_lab::record::{Lab, Run, SCHEMA};
use serde::Serialize;

use super::table::{self, Cell, cells};
use crate::exit::{Failure, Outcome};
use crate::output::print;

/// Show what several invocations have found, scenario by mode: expected against observed.
///
/// Exit status: 0 if everything is as theory says, 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `quorumlock lab run` has written.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn compare(args: &Args) -> Outcome {
    let mut runs = Vec::new();
    for dir in &args.dirs {
        runs.extend(read(dir)?.runs);
    }
    let shown = Shown { runs };
    print(args.json, &shown)?;
    Ok(u8::from(!cells(&shown.runs).iter().all(Cell::as_expected)))
}

/// The record of one invocation.
pub(super) fn read(dir: &Path) -> Result<Lab, Failure> {
    let file = dir.join("lab.json");
    let wrong = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
    let lab: Lab = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if lab.schema == SCHEMA {
        Ok(lab)
    } else {
        Err(wrong(format!("is of schema {}, not {SCHEMA}", lab.schema)))
    }
}

#[derive(Serialize)]
struct Shown {
    runs: Vec<Run>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table::of(&self.runs))
    }
}
