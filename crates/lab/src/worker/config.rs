use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::scenario::{Locking, Work};

/// What a worker needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    /// The run, for its events.
    pub run: String,
    /// The run's seed, for its events.
    pub seed: u64,
    /// Who it is.
    pub client: String,
    /// How locks are kept.
    pub mode: Mode,
    /// Where: one URL, or those of a quorum.
    pub urls: Vec<String>,
    /// The lock.
    pub locking: Locking,
    /// What to do.
    pub work: Work,
    /// What the lock guards.
    pub resource: SocketAddr,
}

/// What a worker is told later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Begin.
    Start,
    /// Give back what is held, ask for nothing any more.
    End,
}
