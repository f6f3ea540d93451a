use std::io;

use super::BadPlan;
use crate::history::BadHistory;
use quorumlock_testbed::servers::{ControlError, StartError};

/// Why a comparison failed.
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
    /// The events cannot be recorded, or the record cannot be read back.
    #[error("what happened cannot be kept: {0}")]
    Record(#[from] BadHistory),
    /// A lock of the warm-up failed, before anything was measured.
    #[error(transparent)]
    Lock(#[from] quorumlock::Error),
}

impl From<io::Error> for CompareError {
    fn from(error: io::Error) -> Self {
        Self::Record(error.into())
    }
}
