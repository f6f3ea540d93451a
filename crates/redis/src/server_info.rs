use std::sync::Arc;

use quorumlock_protocol::{Denial, Incarnation, Instant};

use super::scripts::Scripts;
use super::server_setup::ServerSetup;

/// What requests need to know about the server at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ServerInfo {
    pub(crate) scripts: Arc<Scripts>,
    /// The incarnation under which the node was verified.
    pub(crate) incarnation: Incarnation,
    /// The denial of every vote request, if the node counts for nothing.
    pub(crate) unproven: Option<Denial>,
    /// A number for the run identity of the server, if known. It changes at a restart or promotion.
    pub(crate) run_identity: Option<u64>,
    /// Whether the server has a command that deletes a lock if it holds a given nonce, and lets us
    /// use it.
    pub(crate) deletes_if_ours: bool,
    /// Whether the server refuses `SCRIPT LOAD`, and has its scripts by `EVAL`.
    pub(crate) loads_by_eval: bool,
    /// How it is set up, if that decides whether it votes or how many replicas must acknowledge a vote.
    pub(crate) setup: Option<ServerSetup>,
    /// When the connection is to be replaced, because its credentials end soon.
    pub(crate) replace_at: Option<Instant>,
}

impl ServerInfo {
    /// How many replicas are attached, where that matters.
    pub(crate) fn replicas(&self) -> usize {
        self.setup.as_ref().map_or(0, ServerSetup::replicas)
    }
}
