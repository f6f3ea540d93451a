use serde::{Deserialize, Serialize};

use super::Fault;

/// One step of a schedule. Steps run in order: each waits for its own moment after the previous
/// step was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The moment of the step.
    pub when: When,
    /// The action at that moment.
    pub fault: Fault,
}

/// The moment of a step. A step waits for an event rather than for a time that should be long
/// enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// This many milliseconds after the start of the clients, or at once if that has passed.
    AtMs(u64),
    /// This many milliseconds after the previous step.
    AfterMs(u64),
    /// This many milliseconds after the end of validity of this client's lock, as its last grant or
    /// renewal gave it, or at once if that has passed.
    Outlived {
        /// The client.
        client: String,
        /// The milliseconds.
        ms: u64,
    },
    /// As soon as this client believes that it holds the lock.
    Holds(String),
    /// As soon as this client has been granted the lock since the previous step began.
    Granted(String),
    /// As soon as this client has seen a renewal of its lock since the previous step began.
    Renewed(String),
    /// As soon as a write of this client has been accepted since the previous step began.
    Wrote(String),
    /// As soon as this client has been notified of a loss since the previous step began.
    Told(String),
    /// As soon as an attempt of this client has ended with an error since the previous step began.
    Refused(String),
    /// As soon as a node with another list has refused this client since the previous step began.
    Barred(String),
    /// As soon as this client has read the resource since the previous step began.
    Read(String),
    /// As soon as this client has stopped between its check and its write ([`Work::failpoint_ms`]).
    ///
    /// [`Work::failpoint_ms`]: super::Work::failpoint_ms
    Checked(String),
    /// As soon as all tasks of this client have ended.
    Done(String),
    /// As soon as this client has released a lock since the previous step began.
    Released(String),
    /// As soon as a write of this client has reached the resource since the previous step began,
    /// accepted or not.
    Arrived(String),
    /// As soon as a write of this client is held on its way ([`Fault::Writes`]).
    HeldUp(String),
    /// As soon as this node has the lock's key, of any holder.
    Has(usize),
    /// As soon as this node votes under strict admission.
    Admitted(usize),
    /// As soon as this replica and node 0 have the same replication offset, whichever follows the other.
    InSync(usize),
}

impl When {
    /// At once after the previous step.
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

    /// [`Renewed`](Self::Renewed).
    #[must_use]
    pub fn renewed(client: &str) -> Self {
        Self::Renewed(client.to_owned())
    }

    /// [`Outlived`](Self::Outlived).
    #[must_use]
    pub fn outlived(client: &str, ms: u64) -> Self {
        Self::Outlived { client: client.to_owned(), ms }
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

    /// A step that carries out `fault` at this moment.
    #[must_use]
    pub fn then(self, fault: Fault) -> Step {
        Step { when: self, fault }
    }

    /// The client whose event it waits for.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Holds(client)
            | Self::Granted(client)
            | Self::Renewed(client)
            | Self::Wrote(client)
            | Self::Told(client)
            | Self::Refused(client)
            | Self::Barred(client)
            | Self::Read(client)
            | Self::Checked(client)
            | Self::Released(client)
            | Self::Arrived(client)
            | Self::HeldUp(client)
            | Self::Outlived { client, .. }
            | Self::Done(client) => Some(client),
            Self::AtMs(_)
            | Self::AfterMs(_)
            | Self::InSync(_)
            | Self::Has(_)
            | Self::Admitted(_) => None,
        }
    }
}
