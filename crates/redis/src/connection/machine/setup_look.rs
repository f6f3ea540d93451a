use std::time::Duration;

use quorumlock_protocol::{Instant, Nonce};

use crate::resp::Value;
use crate::server_info::ServerInfo;
use crate::server_setup::ServerSetup;

/// Looks now and then whether the server is still set up as the handshake found it. A server that is not
/// is judged anew by the next handshake.
#[derive(Debug, Default)]
pub(super) struct SetupLook {
    found: Option<ServerSetup>,
    every: Duration,
    /// When to look next.
    at: Option<Instant>,
}

impl SetupLook {
    /// The connection begins now. A server that does not vote is verified again anyway.
    pub(super) fn new(server: &ServerInfo, locker: Nonce, now: Instant) -> Self {
        let found = server.setup.clone().filter(|_| server.unproven.is_none());
        let every = period(locker);
        let at = found.is_some().then_some(now + every);
        Self { found, every, at }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.at
    }

    /// Whether it is time to look; then the next time is later.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = Some(now + self.every);
        }
        due
    }

    /// Whether the reply says that the server is set up otherwise.
    pub(super) fn differs(&self, reply: &Value) -> bool {
        self.found.as_ref().is_some_and(|found| found.differs(reply))
    }
}

/// About a minute. Clients that connect together, after a restart of the server, do not look together.
pub(super) fn period(locker: Nonce) -> Duration {
    let share = u64::try_from(locker.as_u128() % 20_000).unwrap_or(0);
    Duration::from_millis(50_000 + share)
}
