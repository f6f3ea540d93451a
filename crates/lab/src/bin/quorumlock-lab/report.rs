//! `quorumlock-lab report`: writes a page, figures and tables from directories of the lab.

use std::fmt;
use std::path::{Path, PathBuf};

use quorumlock_command::{Failure, Outcome, exit, print};
use quorumlock_lab::record::{Lab, Run, SCHEMA};
use quorumlock_lab::report::{self, ReportError, libraries_page, results_page};
use serde::Serialize;

use crate::table;

/// Write a report from directories of the lab: a page, figures, tables.
///
/// The page is report.html, which loads nothing else; figures/*.svg and tables/*.csv are beside it.
/// The same directories give the same report. The command prints what was expected and observed of
/// each scenario in each mode.
///
/// Exit status: 0 if all results are as theory predicts, 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories that `quorumlock-lab run` or `quorumlock-lab compare` has written.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,

    /// Directory for the report [default: the first DIR].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Print the documentation's page of results, docs/lab/RESULTS.md, and write no report. If locks of other
    /// libraries were taken it is docs/lab/LIBRARIES.md.
    #[arg(long, conflicts_with_all = ["json", "out"])]
    markdown: bool,
}

pub(crate) fn report(args: &Args) -> Outcome {
    if args.markdown {
        return markdown(&args.dirs);
    }
    let out = args.out.as_ref().unwrap_or(&args.dirs[0]);
    let written = write(&args.dirs, out)?;
    let as_expected = written.as_expected;
    print(args.json, &Shown(written))?;
    Ok(u8::from(!as_expected))
}

fn markdown(dirs: &[PathBuf]) -> Outcome {
    let labs = dirs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>, _>>()?;
    let libraries = labs.iter().flat_map(|lab| &lab.runs).any(|run| run.library.is_some());
    let page = if libraries { libraries_page(&labs) } else { results_page(&labs) };
    print(false, &page.trim_end())?;
    let runs = labs.into_iter().flat_map(|lab| lab.runs).collect::<Vec<_>>();
    Ok(u8::from(!table::cells(&runs).iter().all(table::Cell::as_expected)))
}

/// Reads the record of one invocation.
pub(crate) fn read(dir: &Path) -> Result<Lab, Failure> {
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

/// Writes the report of a lab that has just ended into the lab's own directory.
pub(crate) fn beside(dir: &Path) -> Result<report::Written, Failure> {
    write(&[dir.to_owned()], dir)
}

fn write(dirs: &[PathBuf], out: &Path) -> Result<report::Written, Failure> {
    report::write(dirs, out).map_err(|error| {
        let code = match error {
            ReportError::NoLab { .. } | ReportError::NoDirectory => exit::USAGE,
            _ => exit::OUTPUT,
        };
        Failure::new(code, error.to_string())
    })
}

struct Shown(report::Written);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report::Written { page, figures, tables, verdict, runs, .. } = &self.0;
        if !runs.is_empty() {
            writeln!(f, "{}", table::of(runs))?;
        }
        writeln!(f, "{verdict}")?;
        write!(f, "{}, {figures} figures, {tables} tables", page.display())
    }
}

impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            page: String,
            figures: usize,
            tables: usize,
            verdict: &'a str,
            as_expected: bool,
            runs: &'a [Run],
        }
        let report::Written { page, figures, tables, verdict, as_expected, runs } = &self.0;
        let page = page.display().to_string();
        let (figures, tables, as_expected) = (*figures, *tables, *as_expected);
        Fields { page, figures, tables, verdict, as_expected, runs }.serialize(serializer)
    }
}
