use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::ReportError;
use super::files::Files;
use super::load::Source;
use super::page::{self, Overview};
use super::results::{Placed, scenarios};
use super::verdict::Verdict;
use crate::record::Run;

/// A written report.
#[derive(Debug)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// The number of figures with a file of their own.
    pub figures: usize,
    /// The number of tables with a file of their own.
    pub tables: usize,
    /// The first sentence of the page: how many results are as expected, and how often exclusion
    /// fell.
    pub verdict: String,
    /// Whether all results agree with theory.
    pub as_expected: bool,
    /// The runs of all directories.
    pub runs: Vec<Run>,
}

/// Writes the report of one or several directories of the lab into `out`. Reads one history at a
/// time.
///
/// # Errors
/// If a directory is not one of the lab, or the report cannot be written. Damaged files in a
/// directory are described in the report.
pub fn write(dirs: &[PathBuf], out: &Path) -> Result<Written, ReportError> {
    if dirs.is_empty() {
        return Err(ReportError::NoDirectory);
    }
    let sources = dirs.iter().map(|dir| Source::read(dir)).collect::<Result<Vec<_>, _>>()?;
    let runs = sources
        .iter()
        .enumerate()
        .flat_map(|(source, found)| found.runs.iter().map(move |run| Placed { source, run }));
    let scenarios = scenarios(runs);
    let verdict = Verdict::of(&scenarios);
    let overview = Overview { sources: &sources, scenarios: &scenarios, verdict: &verdict };

    let page = out.join("report.html");
    // Renamed at the end, so that a reader never sees an incomplete page.
    let unfinished = out.join("report.html.unfinished");
    let mut files = Files::create(out)?;
    let mut file = BufWriter::new(File::create(&unfinished).map_err(ReportError::at(&unfinished))?);
    let mut put = |part: maud::Markup| {
        file.write_all(part.into_string().as_bytes()).map_err(ReportError::at(&unfinished))
    };
    put(page::opening(&overview, &mut files)?)?;
    for scenario in &scenarios {
        put(page::scenario(scenario, &sources, &mut files)?)?;
    }
    put(page::closing(&overview))?;
    file.flush().map_err(ReportError::at(&unfinished))?;
    fs::rename(&unfinished, &page).map_err(ReportError::at(&page))?;
    Ok(Written {
        page,
        figures: files.figures.len(),
        tables: files.tables.len(),
        verdict: verdict.sentence(),
        as_expected: verdict.good(),
        runs: sources.iter().flat_map(|source| source.runs.iter().cloned()).collect(),
    })
}
