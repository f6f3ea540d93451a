use std::io;
use std::path::{Path, PathBuf};

/// Why a report failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The directory is not one of the lab.
    #[error("{} holds neither a lab.json nor a run: {why}", dir.display())]
    NoLab {
        /// The directory.
        dir: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// No directory was given.
    #[error("no directory of a lab was given")]
    NoDirectory,
    /// The report cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl ReportError {
    /// For `map_err`.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Write { path: path.to_owned(), error }
    }
}
