use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::ReportError;
use super::load::Source;
use super::page::{self, Overview};
use super::results::{Placed, scenarios};
use super::svg::Figure;
use super::table::Table;
use super::verdict::Verdict;

/// A report that was written.
#[derive(Debug)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// How many figures have a file of their own.
    pub figures: usize,
    /// How many tables.
    pub tables: usize,
    /// The page's first sentence: how many results are as expected, and how often exclusion fell.
    pub verdict: String,
    /// Whether all is as theory says.
    pub as_expected: bool,
}

/// Writes the report of one or several directories of the lab into `out`, one history at a time.
///
/// # Errors
/// If a directory is none of the lab's, or the report cannot be written. What is damaged in a
/// directory is told in the report.
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
    // A reader never sees half a page.
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
    })
}

/// The files beside the page.
#[derive(Debug)]
pub(super) struct Files {
    out: PathBuf,
    figures: HashSet<String>,
    tables: HashSet<String>,
}

impl Files {
    /// Makes the directories.
    pub(super) fn create(out: &Path) -> Result<Self, ReportError> {
        for dir in ["figures", "tables"] {
            let dir = out.join(dir);
            fs::create_dir_all(&dir).map_err(ReportError::at(&dir))?;
        }
        Ok(Self { out: out.to_owned(), figures: HashSet::new(), tables: HashSet::new() })
    }

    /// An id that no figure has yet: two labs may have runs of the same name.
    pub(super) fn new_id(&self, wanted: &str) -> String {
        let wanted = super::clean::plain(wanted);
        let mut ids = (2..).map(|number| format!("{wanted}-{number}"));
        if !self.figures.contains(&wanted) {
            return wanted;
        }
        ids.find(|id| !self.figures.contains(id)).unwrap_or(wanted)
    }

    /// Writes a figure.
    pub(super) fn figure(&mut self, figure: &Figure) -> Result<(), ReportError> {
        let path = self.out.join("figures").join(format!("{}.svg", figure.id));
        fs::write(&path, figure.standalone()).map_err(ReportError::at(&path))?;
        self.figures.insert(figure.id.clone());
        Ok(())
    }

    /// Writes a table.
    pub(super) fn table(&mut self, table: &Table) -> Result<(), ReportError> {
        let dir = self.out.join("tables");
        table.write(&dir).map_err(ReportError::at(&dir.join(table.file())))?;
        self.tables.insert(table.file());
        Ok(())
    }
}
