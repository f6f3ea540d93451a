//! Reads the contents of a directory of the lab.

use std::fs;
use std::path::{Path, PathBuf};

use super::ReportError;
use crate::compare::{MEASURED, Report};
use crate::record::{Lab, Run, SCHEMA};
use crate::svg::{clean, plain};

/// A directory of the lab.
#[derive(Debug)]
pub(super) struct Source {
    dir: PathBuf,
    /// The invocation; absent if the lab did not write it.
    pub(super) lab: Option<Lab>,
    /// All runs, those listed by the lab first.
    pub(super) runs: Vec<Run>,
    /// The report of a comparison.
    pub(super) measured: Option<Report>,
    /// What could not be read, in words.
    pub(super) trouble: Vec<String>,
}

impl Source {
    /// Reads everything except the histories.
    ///
    /// # Errors
    /// If the directory holds neither a `lab.json` nor a run.
    pub(super) fn read(dir: &Path) -> Result<Self, ReportError> {
        let mut trouble = Vec::new();
        let lab = read(&dir.join("lab.json"), &mut trouble, |lab: &Lab| lab.schema);
        let mut runs = lab.as_ref().map(|lab: &Lab| lab.runs.clone()).unwrap_or_default();
        for path in run_files(&dir.join("runs")) {
            let run = read(&path, &mut trouble, |run: &Run| run.schema);
            runs.extend(run.filter(|run: &Run| runs.iter().all(|known| known.run != run.run)));
        }
        if lab.is_none() && runs.is_empty() {
            return Err(ReportError::NoLab { dir: dir.to_owned(), why: trouble.join("; ") });
        }
        let measured = dir.join(MEASURED);
        // The file has no schema number, so a file that does not fit is reported as bad JSON.
        let measured =
            measured.exists().then(|| read(&measured, &mut trouble, |_| SCHEMA)).flatten();
        Ok(Self { dir: dir.to_owned(), lab, runs, measured, trouble })
    }

    /// The history of a run; `None` if the run's name is not one that the lab would give.
    pub(super) fn history(&self, run: &Run) -> Option<PathBuf> {
        let named = plain(&run.run) == run.run;
        named.then(|| self.dir.join("runs").join(&run.run).join("history.jsonl"))
    }
}

/// Sorted by name, so that the report does not depend on the file system.
fn run_files(runs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path().join("run.json")).collect();
    files.retain(|file| file.is_file());
    files.sort_unstable();
    files
}

fn read<T: serde::de::DeserializeOwned>(
    path: &Path,
    trouble: &mut Vec<String>,
    schema: fn(&T) -> u32,
) -> Option<T> {
    let name = path.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy());
    let name = name.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/");
    let mut tell = |why: String| trouble.push(format!("{name}: {why}"));
    let text = fs::read_to_string(path).map_err(|error| tell(error.to_string())).ok()?;
    match serde_json::from_str(&text) {
        Ok(value) if schema(&value) == SCHEMA => Some(value),
        Ok(value) => {
            tell(format!("is of schema {}, not {SCHEMA}", schema(&value)));
            None
        }
        Err(error) => {
            tell(clean(&error.to_string()).into_owned());
            None
        }
    }
}
