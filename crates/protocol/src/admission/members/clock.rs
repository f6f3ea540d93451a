use std::time::Duration;

/// How far a server's clock may be from the clock of the client that writes or matures a note on
/// it, unless the clients agree on another bound.
pub const CLOCK_BOUND: Duration = Duration::from_secs(5);

/// A server's time and the client's own, read for one decision, in microseconds of the wall clock,
/// and how far they may be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerClock {
    /// The server's.
    pub server: i64,
    /// The client's.
    pub client: i64,
    /// The bound on which all clients agree: [`CLOCK_BOUND`] by default.
    pub bound: Duration,
}

impl ServerClock {
    /// How far the server's clock is ahead of the client's, in microseconds.
    pub fn ahead(self) -> i64 {
        self.server.saturating_sub(self.client)
    }

    /// Whether a note may be written or matured by these clocks (PROTOCOL.md MEM3). A server that
    /// boots with a wrong clock and is set right later would mature a note at once.
    pub fn agrees(self) -> bool {
        u128::from(self.ahead().unsigned_abs()) <= self.bound.as_micros()
    }
}
