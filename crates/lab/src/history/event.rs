use serde::{Deserialize, Serialize};

use super::Refusal;

/// The version of this format, stored in every line.
pub const SCHEMA: u32 = 1;

/// Stands between a name and the number of a slot of permits: `x#0`. No name of the lab contains it.
pub const SLOT: char = '#';

/// Stands between names that are taken together: `x/0+x/1`. No name of the lab contains it.
pub const TOGETHER: char = '+';

/// One observation of a client, the nemesis, the resource or the lab. Fields that do not apply are
/// absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// [`SCHEMA`].
    pub v: u32,
    /// The run.
    pub run: String,
    /// The run's seed.
    pub seed: u64,
    /// The order in which the recorder received it.
    pub seq: u64,
    /// When it was observed, in nanoseconds of the host's clock that counts suspend. Judges use
    /// only this clock.
    pub mono_ns: u64,
    /// When it was observed, in nanoseconds since 1970. For people.
    pub wall_ns: u64,
    /// The actor: a locker process (`a`, `b`, ...), `nemesis`, `resource` or `lab`.
    pub client: String,
    /// The operation.
    pub op: Op,
    /// The phase of the operation.
    pub phase: Phase,
    /// The number of the attempt, and of the hold if it was granted. Unique together with `client`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<u64>,
    /// The client's task that made the attempt, from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// The lock's name, or that of the permits. From the grant on, a slot of permits is `NAME#SLOT`.
    /// Names that are taken together are `NAME+NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many permits the name has. Present at the grant of a permit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// Whether a read-write lock is held for reading. Present at the grant of a reader.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads: bool,
    /// The nonce of the hold on the nodes: 32 hexadecimal digits. Present at the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The fencing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// When the lease's validity ends, as the holder knows it, on the clock of `mono_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_ns: Option<u64>,
    /// When the worker of another library asked, on the clock of `mono_ns`: the request that was
    /// granted, which may not be the attempt's first. Present at its grant; `mono_ns` is then when the
    /// worker heard of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<u64>,
    /// The server that the fault concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// The value that was written or read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Why nodes refused the client, if for one of these reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The error or the fault, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl Event {
    /// An event observed at `mono_ns` and `wall_ns`. Fields that do not apply to all events are
    /// absent.
    pub(crate) fn seen(
        (run, seed): (&str, u64),
        (mono_ns, wall_ns): (u64, u64),
        client: &str,
        op: Op,
        phase: Phase,
    ) -> Self {
        Self {
            v: SCHEMA,
            run: run.to_owned(),
            seed,
            seq: 0,
            mono_ns,
            wall_ns,
            client: client.to_owned(),
            op,
            phase,
            hold: None,
            task: None,
            name: None,
            permits: None,
            reads: false,
            nonce: None,
            token: None,
            valid_until_ns: None,
            asked_ns: None,
            node: None,
            value: None,
            refusal: None,
            what: None,
        }
    }
}

/// The operation of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// An attempt to lock: begun (`invoke`), granted (`ok`), not granted (`fail`), ended because
    /// another client held the lock (`info`), or given up or cut short (`unknown`).
    Lock,
    /// A release. From `invoke` on, its holder no longer believes that it holds the lock.
    Unlock,
    /// A renewal moved the end of the lease's validity (`info`).
    Hold,
    /// The holder was notified of the loss (`info`), or was killed and can no longer act (`fail`).
    Lost,
    /// A write to the resource: sent (`invoke`, timestamped by the holder), accepted (`ok`) or
    /// refused (`fail`), both timestamped by the resource in its order, or without an answer
    /// (`unknown`).
    Write,
    /// A read of the resource by a reader: as a write, and the resource may refuse it.
    Read,
    /// A fault that lasts from `invoke` to `ok` (with the same `what` and `node`), or that takes no
    /// time (`info`).
    Fault,
    /// Anything else worth recording, such as a read of the resource.
    Note,
}

/// The phase of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The operation begins.
    Invoke,
    /// The operation took effect.
    Ok,
    /// The operation definitely did not take effect.
    Fail,
    /// Whether the operation took effect is unknown.
    Unknown,
    /// The operation has no duration.
    Info,
}
