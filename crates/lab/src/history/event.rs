use serde::{Deserialize, Serialize};

/// The version of this format, in every line.
pub const SCHEMA: u32 = 1;

/// One thing that somebody saw. Absent fields do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// [`SCHEMA`].
    pub v: u32,
    /// The run.
    pub run: String,
    /// The run's seed.
    pub seed: u64,
    /// The order of arrival at the recorder.
    pub seq: u64,
    /// When it was seen, on the host's clock that counts suspend: the one clock that judges.
    pub mono_ns: u64,
    /// When it was seen, since 1970, for people.
    pub wall_ns: u64,
    /// Whose doing it was: a locker process (`a`, `b`, ...), `nemesis`, `resource` or `lab`.
    pub client: String,
    /// What was done.
    pub op: Op,
    /// How far it came.
    pub phase: Phase,
    /// Which attempt of this client, and the hold that came of it: client and number identify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<u64>,
    /// The lock's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the nodes know the hold by, with its grant: 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The fencing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Until when the holder may believe, on the clock of `mono_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_ns: Option<u64>,
    /// The server that a fault struck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// What was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// In words: the error, the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl Event {
    /// What was seen at `mono_ns` and `wall_ns`; whatever does not apply to all events is left out.
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
            name: None,
            nonce: None,
            token: None,
            valid_until_ns: None,
            node: None,
            value: None,
            what: None,
        }
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// A lock was asked for (`invoke`), granted (`ok`), not granted (`fail`), or the asking was
    /// given up or cut short (`unknown`).
    Lock,
    /// A lock was given back. From `invoke` on, its holder believes no more.
    Unlock,
    /// A renewal moved the end of the belief (`info`).
    Hold,
    /// The holder was told of the loss (`info`), or was killed and believes no more (`fail`).
    Lost,
    /// An effect on the resource: sent (`invoke`, stamped by the holder), accepted (`ok`) or refused
    /// (`fail`; both stamped by the resource, in its order), or without an answer (`unknown`).
    Write,
    /// Something was broken (`invoke`) until it was mended (`ok`, with the same `what` and `node`);
    /// or it took no time (`info`).
    Fault,
    /// Something worth knowing.
    Note,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It begins.
    Invoke,
    /// It was done.
    Ok,
    /// It definitely was not done.
    Fail,
    /// Nobody knows.
    Unknown,
    /// It has no duration.
    Info,
}
