use std::io;

use super::BadPlan;
use crate::history::BadHistory;
use crate::servers::{ControlError, StartError};

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The plan is out of bounds.
    #[error(transparent)]
    Plan(#[from] BadPlan),
    /// The servers could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A server could not be killed or started again.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// What happened cannot be recorded, or was not as it was read again.
    #[error("what happened cannot be kept: {0}")]
    Record(#[from] BadHistory),
    /// The first locks, before anything was measured, failed.
    #[error(transparent)]
    Lock(#[from] quorumlock::Error),
}

impl From<io::Error> for CompareError {
    fn from(error: io::Error) -> Self {
        Self::Record(error.into())
    }
}
