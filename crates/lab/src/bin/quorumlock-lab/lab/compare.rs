use std::fmt;
use std::path::{Path, PathBuf};

use quorumlock_command::{Failure, Outcome, print};
use quorumlock_lab::record::{Lab, Run, SCHEMA};
use quorumlock_lab::report::results_page;
use serde::Serialize;

use super::table::{self, Cell, cells};

/// Show the results of several invocations: expected and observed, per scenario and mode.
///
/// Exit status: 0 if all results are as theory predicts, 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories that `quorumlock-lab lab run` has written.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Print the documentation's page of results, docs/lab/RESULTS.md.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub(super) fn compare(args: &Args) -> Outcome {
    let labs = args.dirs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>, _>>()?;
    let page = args.markdown.then(|| results_page(&labs));
    let shown = Shown { runs: labs.into_iter().flat_map(|lab| lab.runs).collect() };
    match page {
        Some(page) => print(false, &page.trim_end())?,
        None => print(args.json, &shown)?,
    }
    Ok(u8::from(!cells(&shown.runs).iter().all(Cell::as_expected)))
}

/// Reads the record of one invocation.
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
