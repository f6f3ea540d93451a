//! One connection of a client to a node.

use std::collections::VecDeque;
use std::sync::Arc;

use quorumlock_protocol::{
    Denial, Greeting, Incarnation, Instant, Lane, LeaseRequest, QueueAction, Unconfirmed,
};

use super::request::{SimRequest, SimResponder};
use super::time::Micros;

/// Identifies a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId {
    /// The client's process. A restarted client is a new process.
    pub client: usize,
    pub node: usize,
    pub lane: Lane,
}

#[derive(Debug, Default)]
pub struct Link {
    pub phase: Phase,
    /// The number of this connection. Answers on an older connection are dropped.
    pub connection: u64,
    /// The number of the server's run to which the connection leads.
    pub run: u64,
    /// The handshake's result on the present connection, or on the last one.
    pub handshake: Option<HandshakeReply>,
    /// When the connection came up, on the client's clock.
    pub since: Option<Instant>,
    pub next_id: u64,
    pub waiting: VecDeque<Pending>,
    /// The arrival times of the last request and of the last answer. Later ones arrive no sooner.
    pub last_out: Micros,
    pub last_in: Micros,
    /// Whether an answer has come since the last stall check, and (`useful`) on this connection.
    pub answered: bool,
    pub useful: bool,
    /// Whether a stall timer runs.
    pub stall_timer: bool,
    pub backoff: Micros,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Phase {
    #[default]
    Idle,
    Dialing,
    Up,
    /// The client keeps dialling in the background. Requests fail at once.
    Down,
}

/// A request without an answer.
#[derive(Debug)]
pub struct Pending {
    pub id: u64,
    pub request: Arc<SimRequest>,
    pub to: SimResponder,
    /// When the client posted the request. The lease counts from then, before the command enters
    /// the client's own queue.
    pub asked: Instant,
    pub sent: Micros,
}

/// A release without an answer. The client repeats it until its lease has ended.
#[derive(Debug)]
pub struct UnconfirmedRelease {
    pub lease: LeaseRequest,
    pub queue_action: Option<QueueAction>,
    pub unconfirmed: Unconfirmed,
    pub to: SimResponder,
    pub until: Instant,
}

/// The result of a handshake.
#[derive(Clone, Debug)]
pub struct HandshakeReply {
    /// The incarnation under which the node was verified; `Incarnation::NONE` if it was not.
    pub incarnation: Incarnation,
    /// The denial for requests that need a vote, if the node may not vote.
    pub unproven: Option<Denial>,
    /// The server's run id and replication id, as one number.
    pub run_identity: u64,
}

/// Both connections of a client to a node.
pub const LANES: [Lane; 2] = [Lane::Caller, Lane::Watchdog];

impl Link {
    pub fn incarnation(&self) -> Incarnation {
        self.handshake.as_ref().map_or(Incarnation::NONE, |handshake| handshake.incarnation)
    }

    /// The handshake of the current connection, or of the last one.
    pub fn greeting(&self) -> Greeting {
        let run_identity = self.handshake.as_ref().map(|handshake| handshake.run_identity);
        Greeting { run_identity, at: self.since.unwrap_or(Instant::NEVER) }
    }

    pub fn unproven(&self) -> Option<&Denial> {
        self.handshake.as_ref()?.unproven.as_ref()
    }
}
