use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::ReportError;
use super::table::Table;
use crate::svg::Figure;

/// The files beside the page.
#[derive(Debug)]
pub(super) struct Files {
    out: PathBuf,
    pub(super) figures: HashSet<String>,
    pub(super) tables: HashSet<String>,
}

impl Files {
    /// Creates the directories.
    pub(super) fn create(out: &Path) -> Result<Self, ReportError> {
        for dir in ["figures", "tables"] {
            let dir = out.join(dir);
            fs::create_dir_all(&dir).map_err(ReportError::at(&dir))?;
        }
        Ok(Self { out: out.to_owned(), figures: HashSet::new(), tables: HashSet::new() })
    }

    /// An id that no other figure has: two labs may have runs of the same name.
    pub(super) fn new_id(&self, wanted: &str) -> String {
        let wanted = crate::svg::plain(wanted);
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
