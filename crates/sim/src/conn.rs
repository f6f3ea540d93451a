//! One connection of a client to a node: a byte stream in each direction.

use std::task::Waker;

use super::arrival::ConnId;
use super::peer::Peer;
use super::time::Micros;

#[derive(Debug)]
pub struct Conn {
    pub id: ConnId,
    /// The number of the server's run to which the connection leads.
    pub run: u64,
    pub phase: Phase,
    /// What arrived and was not read yet.
    pub inbound: Vec<u8>,
    pub read: usize,
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    /// The client has closed its end.
    pub closed: bool,
    /// The stream takes no bytes before this time.
    pub full_until: Micros,
    /// The bytes of a command of which the client has not written the rest.
    pub partial: Vec<u8>,
    /// The server's end; `None`: closed.
    pub peer: Option<Peer>,
    /// The arrival times of the last bytes in each direction. Later ones arrive no sooner.
    pub last_out: Micros,
    pub last_in: Micros,
    /// What is sent from now on never arrives, in each direction.
    pub loses_out: bool,
    pub loses_in: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Dialing,
    Up,
    Refused,
    /// The connection was reset, as the client knows.
    Reset,
}

impl Conn {
    pub fn new(id: ConnId) -> Self {
        Self {
            id,
            run: 0,
            phase: Phase::Dialing,
            inbound: Vec::new(),
            read: 0,
            reader: None,
            writer: None,
            closed: false,
            full_until: 0,
            partial: Vec::new(),
            peer: None,
            last_out: 0,
            last_in: 0,
            loses_out: false,
            loses_in: false,
        }
    }

    /// Whether the client uses it.
    pub fn is_open(&self) -> bool {
        !self.closed && self.phase == Phase::Up
    }

    pub fn wakers(&mut self) -> impl Iterator<Item = Waker> {
        self.reader.take().into_iter().chain(self.writer.take())
    }
}
