//! What happens in the world at a given time.

use quorumlock_protocol::{Claim, Name, RemoteGrant};

use super::arrival::{Arrival, ConnId};

/// One event.
#[derive(Debug)]
pub enum Event {
    /// The server answers a dial, or nothing does.
    Dialed(ConnId),
    Arrive(Arrival),
    /// Bytes reach the client.
    Bytes(ConnId, Vec<u8>),
    /// A message of a subscription reaches the client.
    Message(ConnId, Vec<u8>, Notification),
    /// The client's stream takes bytes again.
    Writable(ConnId),
    /// The client learns that the connection was reset.
    Reset(ConnId),
    /// The server learns that the client has closed the connection.
    Closed(ConnId),
    /// A fault at a random time (`None`), or at a critical moment.
    Fault(Option<Moment>),
    End(Ending),
}

/// What a message of a node tells a client.
#[derive(Clone, Debug)]
pub enum Notification {
    /// The client is at the head of the queue of the name.
    Head(Claim),
    /// The name was handed off.
    Handoff(Claim, RemoteGrant),
    /// A release was published on the channel of a name.
    Released,
    /// A hold was released by force.
    Forced,
}

/// A moment for a fault that the plan gives, or that a random time seldom hits.
#[derive(Clone, Debug)]
pub enum Moment {
    /// The time at which the plan restarts a node, which is empty afterwards.
    Restart(usize),
    /// A client has sent a request.
    Sent(usize),
    /// A node is about to execute raises of these names.
    Raising(usize, Vec<Name>),
    /// A server has identified itself to a client.
    Identified(usize),
}

/// The end of a fault that lasts.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    Restart(usize),
    GoOn(usize),
    Thaw(usize),
    Slew(usize),
    /// A demoted node is promoted again.
    Demotion(usize),
    /// The end of a process's stop, and whether its clock counted the time.
    Wake(usize, bool),
    /// A resumed process handles what arrived while it was stopped.
    Hear(usize),
    /// A new process in the place of a dead one.
    Spawn(usize),
    Heal,
}

impl Event {
    /// The client whose code handles the event. A stopped client handles it when it resumes.
    pub fn client(&self) -> Option<usize> {
        match self {
            Self::Dialed(conn)
            | Self::Bytes(conn, _)
            | Self::Message(conn, ..)
            | Self::Writable(conn)
            | Self::Reset(conn) => Some(conn.client),
            _ => None,
        }
    }
}
