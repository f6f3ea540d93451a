use std::io;

use crate::history::BadHistory;
use crate::servers::{ControlError, NoFaketime, NoServer, StartError};

/// Why a run could not be carried out or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// There is no server program.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// The servers could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A server could not be struck.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The servers could not be vouched for.
    #[error(transparent)]
    Lock(#[from] quorumlock::Error),
    /// A process, a connection or a file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What was recorded cannot be read.
    #[error(transparent)]
    History(#[from] BadHistory),
    /// The scenario means nothing in this mode, or its plan is wrong.
    #[error("{0}")]
    Plan(String),
    /// This machine or this driver has not what the run needs: it is left out.
    #[error("{0}")]
    Missing(String),
    /// What a step waits for did not happen.
    #[error("step {step} ({fault}): {awaited} did not happen within {patience_ms} ms")]
    Stuck {
        /// Counted from one.
        step: usize,
        /// What was to be done then.
        fault: String,
        /// What was waited for.
        awaited: String,
        /// For how long.
        patience_ms: u64,
    },
}

impl TrialError {
    /// Where the schedule got stuck, in a few words.
    pub(super) fn stuck_at(&self) -> Option<String> {
        match self {
            Self::Stuck { step, fault, .. } => Some(format!("step {step} ({fault})")),
            _ => None,
        }
    }
}

impl From<NoFaketime> for TrialError {
    fn from(missing: NoFaketime) -> Self {
        Self::Missing(missing.to_string())
    }
}
