use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::scenario::{Locking, Work};

/// The configuration of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    /// The run, for its events.
    pub run: String,
    /// The run's seed, for its events.
    pub seed: u64,
    /// The client's name.
    pub client: String,
    /// The lock configuration.
    pub mode: Mode,
    /// The command of the worker whose library takes the locks; `None`: this library takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The servers: one URL, or those of a quorum.
    pub urls: Vec<String>,
    /// The lock's name and lease, shared by all clients.
    pub locking: Locking,
    /// What the worker's tasks do.
    pub work: Work,
    /// The number of the first attempt: an earlier process of the client may have made some.
    pub first_attempt: u64,
    /// The address of the resource that the lock guards.
    pub resource: SocketAddr,
}

/// A command to a running workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Start the tasks.
    Start,
    /// Release all holds and stop asking.
    End,
}
