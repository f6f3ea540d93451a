//! What a task of the workload takes.

use quorumlock_protocol::{Claim, ConfigError, Name};

/// How many permits a name has.
const PERMITS: u32 = 2;

/// What a task takes, and of which name.
pub(crate) enum Wanted {
    Lock(String),
    Permit(String),
    Read(String),
    Write(String),
}

impl Wanted {
    pub(crate) fn claim(&self) -> Result<Claim, ConfigError> {
        match self {
            Self::Lock(name) => Claim::lock([name]),
            Self::Permit(name) => Claim::any_slot(Name::new(name)?, PERMITS),
            Self::Read(name) => Name::new(name).map(Claim::read),
            Self::Write(name) => Name::new(name).map(Claim::write),
        }
    }
}
