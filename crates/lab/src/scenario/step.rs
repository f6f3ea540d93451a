use serde::Serialize;

use super::Fault;

/// One step of a schedule. Steps follow each other: each waits for its own moment after the one
/// before it was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When.
    pub when: When,
    /// What then.
    pub fault: Fault,
}

/// The moment of a step. Whatever is awaited is an event, not a time that is long enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// So long after the clients were let go, or at once if that is over.
    AtMs(u64),
    /// So long after the step before.
    AfterMs(u64),
    /// As soon as this client believes that it holds the lock.
    Holds(String),
    /// As soon as this client was granted the lock since the step before began.
    Granted(String),
    /// As soon as a write of this client was accepted since the step before began.
    Wrote(String),
    /// As soon as this client was told of a loss since the step before began.
    Told(String),
    /// As soon as an attempt of this client ended with an error since the step before began.
    Refused(String),
    /// As soon as this client has read what the lock guards since the step before began.
    Read(String),
    /// As soon as this client stands between its check and its write ([`Work::failpoint_ms`]).
    ///
    /// [`Work::failpoint_ms`]: super::Work::failpoint_ms
    Checked(String),
    /// As soon as this client has done all that it was to do.
    Done(String),
    /// As soon as a lock of this client was given back since the step before began.
    Released(String),
    /// As soon as a write of this client has reached what the lock guards since the step before
    /// began, accepted or not.
    Arrived(String),
    /// As soon as a write of this client is held on its way ([`Fault::Writes`]).
    HeldUp(String),
    /// As soon as this node has the lock's key, whosesoever it is.
    Has(usize),
    /// As soon as the replica has what its master has: both have the same replication offset.
    InSync(usize),
}

impl When {
    /// At once.
    pub const NOW: Self = Self::AfterMs(0);

    /// [`Holds`](Self::Holds).
    #[must_use]
    pub fn holds(client: &str) -> Self {
        Self::Holds(client.to_owned())
    }

    /// [`Granted`](Self::Granted).
    #[must_use]
    pub fn granted(client: &str) -> Self {
        Self::Granted(client.to_owned())
    }

    /// [`Wrote`](Self::Wrote).
    #[must_use]
    pub fn wrote(client: &str) -> Self {
        Self::Wrote(client.to_owned())
    }

    /// [`Refused`](Self::Refused).
    #[must_use]
    pub fn refused(client: &str) -> Self {
        Self::Refused(client.to_owned())
    }

    /// [`Done`](Self::Done).
    #[must_use]
    pub fn done(client: &str) -> Self {
        Self::Done(client.to_owned())
    }

    /// This, then that.
    #[must_use]
    pub fn then(self, fault: Fault) -> Step {
        Step { when: self, fault }
    }

    /// The client that it waits for.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Holds(client)
            | Self::Granted(client)
            | Self::Wrote(client)
            | Self::Told(client)
            | Self::Refused(client)
            | Self::Read(client)
            | Self::Checked(client)
            | Self::Released(client)
            | Self::Arrived(client)
            | Self::HeldUp(client)
            | Self::Done(client) => Some(client),
            Self::AtMs(_) | Self::AfterMs(_) | Self::InSync(_) | Self::Has(_) => None,
        }
    }
}
