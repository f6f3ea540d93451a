//! What both commands that leave files say where they cannot.

use std::path::Path;

use quorumlock_command::{Failure, exit};

/// The failure to write to this place.
pub(crate) fn cannot_write(out: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit::OUTPUT, format!("cannot write to {}: {error}", out.display()))
}
