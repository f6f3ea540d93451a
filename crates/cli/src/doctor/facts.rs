use std::time::Duration;

use serde::Serialize;

use super::capabilities::Capabilities;
use crate::trial::{Trial, micros};

/// What a node says about itself.
#[derive(Debug, Clone, Serialize)]
pub(super) struct NodeFacts {
    /// Its address, without password.
    pub(super) node: String,
    #[serde(flatten)]
    pub(super) answer: Answer,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Silent { error: String },
    Given(Box<Facts>),
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Facts {
    #[serde(flatten)]
    pub(super) round_trips: RoundTrips,
    /// The node's clock minus a reference that is the same for all nodes, in microseconds, known to
    /// half the round trip. `None`: the node did not tell.
    #[serde(rename = "clock_ahead_us")]
    pub(super) clock: Option<i64>,
    pub(super) info: Info,
    /// The rights that the user lacks, as `ACL SETUSER` would grant them.
    pub(super) missing_rights: Vec<String>,
    pub(super) capabilities: Capabilities,
    /// What it did with the lock of a reserved name.
    pub(super) lock: Trial,
}

/// Of several small requests, one after the other.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RoundTrips {
    /// In which the clock was read.
    #[serde(skip)]
    pub(crate) best: Duration,
    #[serde(rename = "round_trip_us", serialize_with = "micros")]
    pub(crate) median: Duration,
    #[serde(rename = "worst_round_trip_us", serialize_with = "micros")]
    pub(crate) worst: Duration,
}

/// From `INFO`, `CONFIG GET` and the admission record. `None`: the node did not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Info {
    /// `redis`, `valkey` or another name.
    pub(super) server: Option<String>,
    pub(super) version: Option<String>,
    pub(super) run_id: Option<String>,
    /// `standalone`, `sentinel` or `cluster`.
    pub(super) mode: Option<String>,
    /// `master` or `slave`.
    pub(crate) role: Option<String>,
    pub(super) replicas: Option<u32>,
    /// How many clients are connected, replicas not counted.
    pub(crate) connections: Option<u64>,
    pub(super) loading: Option<bool>,
    /// In bytes; 0 is no limit.
    pub(super) maxmemory: Option<u64>,
    pub(super) maxmemory_policy: Option<String>,
    pub(super) aof: Option<bool>,
    pub(super) appendfsync: Option<String>,
    /// When snapshots are written; empty means never.
    pub(super) save: Option<String>,
    /// In seconds: after so long without a replica a master gives up its replication id. 0 is never.
    pub(super) repl_backlog_ttl: Option<u64>,
    /// What a member of a Redis Cluster says about it: `ok` or `fail`.
    pub(super) cluster_state: Option<String>,
    /// Commands that replace what the memory holds, with how often the server has run each.
    pub(super) replaced_by: Vec<(String, u64)>,
    /// The list of the cluster to which it belongs, by its admission record.
    pub(super) members: Option<String>,
    /// How many slots have a master, as it says.
    pub(super) slots_assigned: Option<usize>,
}

impl NodeFacts {
    pub(super) fn facts(&self) -> Option<&Facts> {
        match &self.answer {
            Answer::Given(facts) => Some(facts),
            Answer::Silent { .. } => None,
        }
    }
}

impl Info {
    /// Reads the answer to `INFO`.
    pub(crate) fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        let flag = |name| field(name).map(|value| value == "1");
        let run_id = field("run_id");
        // Valkey reports `redis_version:7.2.4` for old clients; its own name and version are in
        // other fields.
        let server = field("server_name").or_else(|| run_id.is_some().then(|| "redis".to_owned()));
        let version = server
            .as_deref()
            .and_then(|server| field(&format!("{server}_version")))
            .or_else(|| field("redis_version"));
        Self {
            server,
            version,
            run_id,
            mode: field("redis_mode").or_else(|| field("server_mode")),
            role: field("role"),
            replicas: field("connected_slaves").and_then(|number| number.parse().ok()),
            connections: field("connected_clients").and_then(|number| number.parse().ok()),
            loading: flag("loading"),
            maxmemory: field("maxmemory").and_then(|number| number.parse().ok()),
            maxmemory_policy: field("maxmemory_policy"),
            aof: flag("aof_enabled"),
            appendfsync: None,
            save: None,
            repl_backlog_ttl: None,
            replaced_by: replaced_by(text),
            members: None,
            cluster_state: field("cluster_state"),
            slots_assigned: field("cluster_slots_assigned").and_then(|number| number.parse().ok()),
        }
    }
}

/// From `INFO commandstats`.
fn replaced_by(text: &str) -> Vec<(String, u64)> {
    // RESTORE is not here: locks in Redisson's layout are taken by it.
    let commands =
        ["flushall", "flushdb", "swapdb", "copy", "move", "rename", "debug", "debug|reload"];
    let calls = |command: &str| {
        let said = format!("cmdstat_{command}:calls=");
        let calls = text.lines().find_map(|line| line.strip_prefix(&said))?;
        Some((command.to_owned(), calls.split(',').next()?.parse().ok()?))
    };
    commands.into_iter().filter_map(calls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_is_not_taken_for_an_old_redis() {
        let info =
            Info::parse("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n");
        assert_eq!(info.server.as_deref(), Some("valkey"));
        assert_eq!(info.version.as_deref(), Some("9.1.2"));
        let info = Info::parse("# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\n");
        assert_eq!(info.server.as_deref(), Some("redis"));
        assert_eq!(info.version.as_deref(), Some("7.0.15"));
    }

    #[test]
    fn what_a_node_does_not_tell_is_unknown() {
        assert_eq!(Info::parse(""), Info::default());
    }
}
