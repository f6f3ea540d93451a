use super::BadPlan;
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
    /// The first locks, before anything was measured, failed.
    #[error(transparent)]
    Lock(#[from] quorumlock::Error),
}
