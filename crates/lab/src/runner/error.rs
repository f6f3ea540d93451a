use std::io;
use std::time::Duration;

use crate::history::BadHistory;
use quorumlock_testbed::servers::{ControlError, NoFaketime, NoServer, StartError};

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
    /// A server could not be controlled.
    #[error(transparent)]
    Control(ControlError),
    /// The nodes could not be admitted.
    #[error(transparent)]
    Lock(#[from] quorumlock::Error),
    /// A process, a connection or a file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] BadHistory),
    /// The scenario does not apply to this mode, or its plan is wrong.
    #[error("{0}")]
    Plan(String),
    /// This machine or this driver lacks something that the run needs: the run is skipped.
    #[error("{0}")]
    Missing(String),
    /// The event that a step waits for did not happen.
    #[error("step {step} ({fault}): {awaited} did not happen within {patience_ms} ms")]
    Stuck {
        /// The step's number, from one.
        step: usize,
        /// The step's fault.
        fault: String,
        /// The event that the step waits for.
        awaited: String,
        /// How long the step waited, in milliseconds.
        patience_ms: u64,
    },
}

impl TrialError {
    /// What was awaited did not happen. The step is not known here: see [`Self::at_step`].
    pub(super) fn stuck(fault: &str, awaited: &str, patience: Duration) -> Self {
        let (fault, awaited) = (fault.to_owned(), awaited.to_owned());
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        Self::Stuck { step: 0, fault, awaited, patience_ms }
    }

    /// The same, at this step of the schedule.
    pub(super) fn at_step(self, step: usize) -> Self {
        match self {
            Self::Stuck { fault, awaited, patience_ms, .. } => {
                Self::Stuck { step, fault, awaited, patience_ms }
            }
            other => other,
        }
    }

    /// The step at which the schedule got stuck, in words.
    pub(super) fn stuck_at(&self) -> Option<String> {
        match self {
            Self::Stuck { step, fault, .. } => Some(format!("step {step} ({fault})")),
            _ => None,
        }
    }
}

impl From<ControlError> for TrialError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Unsupported { .. } => Self::Missing(error.to_string()),
            error => Self::Control(error),
        }
    }
}

impl From<NoFaketime> for TrialError {
    fn from(missing: NoFaketime) -> Self {
        Self::Missing(missing.to_string())
    }
}
