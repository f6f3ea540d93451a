//! The lines between the lab and a worker. docs/lab/WORKERS.md explains them.

use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::history::Event;

/// The version of the lines.
pub const PROTOCOL: u32 = 1;

/// A line of the lab to a worker. A worker ignores fields that it does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// The first line.
    Hello(Greeting),
    /// Take a lock.
    Acquire(Acquire),
    /// Does the hold still stand?
    Check {
        /// The hold.
        id: u64,
    },
    /// Give the lock back.
    Release {
        /// The hold.
        id: u64,
    },
    /// Carry out a whole workload, and report its events. Of the lab's own worker only.
    Work(Box<Config>),
    /// Start the tasks of the workload.
    Start,
    /// Release all holds of the workload and stop asking.
    End,
}

/// What a worker must know before it takes a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// [`PROTOCOL`].
    pub(crate) protocol: u32,
    /// The client's name, for the servers' lists of clients.
    pub(crate) client: String,
    /// How the servers belong together.
    pub(crate) topology: Topology,
    /// The servers, or the sentinels; none: the lab only asks who the worker is.
    pub(crate) servers: Vec<String>,
    /// The name that sentinels give the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) master: Option<String>,
    /// The lease of all acquisitions.
    pub(crate) lease_ms: u64,
}

/// How the servers of a worker belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One server.
    One,
    /// Independent servers: a lock is held on a majority of them.
    Quorum,
    /// Sentinels, which tell the master.
    Sentinel,
}

/// An order to take a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acquire {
    /// The number of the attempt, and of the hold if it is granted.
    pub(crate) id: u64,
    /// The names; several are taken together.
    pub(crate) names: Vec<String>,
    /// What is taken under the names.
    pub(crate) kind: LockKind,
    /// How many permits the name has, if it has permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
    /// The lease.
    pub(crate) lease_ms: u64,
    /// How long to wait for a lock that another holds; absent: until it is granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_ms: Option<u64>,
}

/// What is taken under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// A lock.
    Lock,
    /// A read-write lock, for reading.
    Read,
    /// A read-write lock, for writing.
    Write,
    /// One of several permits.
    Permit,
}

/// What a library does besides granting and releasing locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// It says for how long a lock is valid.
    Validity,
    /// It renews the lease of a lock that is held.
    Renewal,
    /// It tells a holder of the loss.
    Loss,
    /// It gives fencing tokens.
    Tokens,
    /// It takes several names together.
    Names,
}

/// A line of a worker to the lab. The lab ignores fields that it does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub(crate) enum Line {
    /// Who the worker is: the answer to `hello`.
    Hello(Hello),
    /// The library is not on this machine: the other answer to `hello`.
    Absent {
        /// What is missing.
        why: String,
    },
    /// An attempt was granted.
    Granted(Granted),
    /// An attempt was not granted.
    Refused(Refused),
    /// The answer to `check`.
    Checked(Checked),
    /// The library moved the end of a lease.
    Renewed(Renewed),
    /// The library told the holder that the lock is lost.
    Lost(Lost),
    /// The answer to `release`.
    Released(Released),
    /// An event of a workload. Of the lab's own worker only.
    Event(Box<Event>),
}

/// Who a worker is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The lock library.
    pub library: String,
    /// Its version.
    pub version: String,
    /// The topologies that it can use.
    pub topologies: Vec<Topology>,
    /// The kinds of locks that it has.
    pub kinds: Vec<LockKind>,
    /// What else it does.
    #[serde(default)]
    pub features: Vec<Feature>,
    /// The options that differ from the library's defaults, for the record.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub options: serde_json::Map<String, serde_json::Value>,
}

/// A grant. All clock readings are nanoseconds of `CLOCK_BOOTTIME`, read by the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub(crate) id: u64,
    /// Right before the worker called the library.
    pub(crate) asked_ns: u64,
    /// Right after the library returned.
    pub(crate) heard_ns: u64,
    /// The fencing token, if the library gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// For how long from `heard_ns` on the library says that the lock is valid; absent: it does not
    /// say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_for_ns: Option<u64>,
}

/// An attempt that was not granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) id: u64,
    pub(crate) asked_ns: u64,
    pub(crate) heard_ns: u64,
    /// Whether another client holds the lock; otherwise the attempt failed.
    pub(crate) held: bool,
    /// What the library says, in words.
    #[serde(default)]
    pub(crate) why: String,
}

/// Whether a hold still stands, as the library says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checked {
    pub(crate) id: u64,
    pub(crate) asked_ns: u64,
    pub(crate) heard_ns: u64,
    pub(crate) valid: bool,
    /// As in [`Granted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_for_ns: Option<u64>,
}

/// A lease has a later end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewed {
    pub(crate) id: u64,
    pub(crate) heard_ns: u64,
    /// As in [`Granted`].
    pub(crate) valid_for_ns: u64,
}

/// A lock is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) id: u64,
    pub(crate) heard_ns: u64,
    #[serde(default)]
    pub(crate) why: String,
}

/// A lock was given back, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Released {
    pub(crate) id: u64,
    pub(crate) asked_ns: u64,
    pub(crate) heard_ns: u64,
    /// Whether the library says that it gave the lock back.
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) why: String,
}

impl Hello {
    /// Whether the library does this.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}
