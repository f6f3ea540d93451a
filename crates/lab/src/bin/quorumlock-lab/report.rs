//! `quorumlock-lab report`: writes a page, figures and tables from directories of the lab.

use std::fmt;
use std::path::{Path, PathBuf};

use quorumlock_command::{Failure, Outcome, exit, print};
use quorumlock_lab::report::{self, ReportError};
use serde::Serialize;

/// Write a report from directories of the lab: a page, figures, tables.
///
/// The page is report.html, which loads nothing else; figures/*.svg and tables/*.csv are beside it.
/// The same directories give the same report.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories that `quorumlock-lab lab run` has written.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,

    /// Directory for the report [default: the first DIR].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn report(args: &Args) -> Outcome {
    let out = args.out.as_ref().unwrap_or(&args.dirs[0]);
    print(args.json, &Shown(write(&args.dirs, out)?))?;
    Ok(0)
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
        let report::Written { page, figures, tables, verdict, .. } = &self.0;
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
        }
        let report::Written { page, figures, tables, verdict, as_expected } = &self.0;
        let page = page.display().to_string();
        let (figures, tables, as_expected) = (*figures, *tables, *as_expected);
        Fields { page, figures, tables, verdict, as_expected }.serialize(serializer)
    }
}
