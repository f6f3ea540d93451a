//! Commands on their way to a node.

use super::lease_command::LeaseCommand;
use super::resp::Commands;

/// Identifies a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnId {
    pub number: usize,
    /// The client's process. A restarted client is a new process.
    pub client: usize,
    pub node: usize,
}

/// Commands that reach a node.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub conn: ConnId,
    pub commands: Commands,
    /// What each command does.
    pub lease_commands: Vec<LeaseCommand>,
}
