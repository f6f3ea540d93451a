//! What happens in the world at a given time.

use std::sync::Arc;

use quorumlock_protocol::{Incarnation, Name, RemoteGrant};

use super::link::{HandshakeReply, LinkId};
use super::request::{Reply, SimRequest};

/// A request that reaches a node.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub link: LinkId,
    pub connection: u64,
    pub id: u64,
    pub request: Arc<SimRequest>,
    /// The incarnation to which the request's script is bound.
    pub bound: Incarnation,
    /// Whether this is a copy: no client waits for its reply.
    pub copy: bool,
}

/// One event.
#[derive(Debug)]
pub enum Event {
    Arrive(Arrival),
    Answer(LinkId, u64, u64, Reply),
    Dialed(LinkId, u64, bool),
    Redial(LinkId, u64),
    Greeted(LinkId, u64, u64, HandshakeReply),
    Recheck(LinkId, u64),
    Stall(LinkId, u64),
    Broken(LinkId, u64),
    Subscribe(usize, usize),
    Subscribed(usize, usize),
    Message(usize, usize, Name, Option<RemoteGrant>),
    /// A fault at a random time (`None`), or at a critical moment.
    Fault(Option<Moment>),
    End(Ending),
}

/// A moment for a fault that the plan gives, or that a random time seldom hits.
#[derive(Clone, Debug)]
pub enum Moment {
    /// The time at which the plan restarts a node, which is empty afterwards.
    Restart(usize),
    /// A client has sent a request.
    Sent(usize),
    /// A node is about to execute a raise.
    Raising(usize, Arc<SimRequest>),
}

/// The end of a fault that lasts.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    Restart(usize),
    GoOn(usize),
    Thaw(usize),
    Slew(usize),
    /// The end of a process's stop, and whether its clock counted the time.
    Wake(usize, bool),
    /// A new process in the place of a dead one.
    Spawn(usize),
    Heal,
}

impl Event {
    /// The client whose code handles the event. A stopped client handles it when it resumes.
    pub fn client(&self) -> Option<usize> {
        match self {
            Self::Answer(link, ..)
            | Self::Dialed(link, ..)
            | Self::Redial(link, _)
            | Self::Greeted(link, ..)
            | Self::Recheck(link, _)
            | Self::Stall(link, ..)
            | Self::Broken(link, ..) => Some(link.client),
            Self::Subscribed(client, ..) | Self::Message(client, ..) => Some(*client),
            _ => None,
        }
    }
}
