use std::io;
use std::path::{Path, PathBuf};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A directory is none of the lab.
    #[error("{} holds neither a lab.json nor a run: {why}", dir.display())]
    NoLab {
        /// The directory.
        dir: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Nothing was asked for.
    #[error("no directory of a lab was given")]
    NoDirectory,
    /// The report cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl ReportError {
    /// For `map_err`.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Write { path: path.to_owned(), error }
    }
}
