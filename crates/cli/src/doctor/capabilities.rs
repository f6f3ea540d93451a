//! What a server can do for locks, as it answered. No product's name decides anything.

use std::collections::BTreeMap;

use quorumlock_redis::permissions::{PROBE_KEY, is_forbidden};
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value, cmd};
use serde::Serialize;

/// By capability: whether the server has the commands for it and lets the user run them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Capabilities(BTreeMap<&'static str, bool>);

/// Capabilities, and the commands of the table of permissions that each needs.
const OF_PERMISSIONS: [(&str, &[&str]); 6] = [
    ("info", &["info"]),
    ("scripts", &["eval", "evalsha"]),
    ("script_load", &["script|load"]),
    // Locks are taken without a script.
    ("transactions", &["multi", "exec", "script|exists"]),
    ("restore", &["restore"]),
    // Waiters are told of a release.
    ("messages", &["publish", "subscribe"]),
];

/// Capabilities that options or layouts use, each with a call that changes nothing.
const OF_OPTIONS: [(&str, &[&str]); 3] = [
    ("delifeq", &["DELIFEQ", PROBE_KEY, ""]),
    ("wait", &["WAIT", "0", "0"]),
    ("waitaof", &["WAITAOF", "0", "0", "0"]),
];

impl Capabilities {
    /// `missing_rights`: what the user lacks, as `ACL SETUSER` would grant it.
    pub(super) async fn of(
        node: &mut MultiplexedConnection,
        missing_rights: &[String],
    ) -> RedisResult<Self> {
        let mut capabilities = BTreeMap::new();
        for (name, commands) in OF_PERMISSIONS {
            let lacks = |right: &String| commands.iter().any(|command| right[1..] == **command);
            capabilities.insert(name, !missing_rights.iter().any(lacks));
        }
        for (name, call) in OF_OPTIONS {
            capabilities.insert(name, has(node, call).await?);
        }
        Ok(Self(capabilities))
    }

    /// What the server cannot do.
    pub(super) fn lacks(&self) -> String {
        let lacks: Vec<_> =
            self.0.iter().filter(|(_, has)| !**has).map(|(name, _)| *name).collect();
        if lacks.is_empty() { "nothing".to_owned() } else { lacks.join(", ") }
    }
}

async fn has(node: &mut MultiplexedConnection, call: &[&str]) -> RedisResult<bool> {
    match cmd(call[0]).arg(&call[1..]).query_async::<Value>(node).await {
        Err(error) if error.is_io_error() => Err(error),
        Err(error) => Ok(error.code() != Some("NOPERM") && !is_forbidden(&error.to_string())),
        Ok(_) => Ok(true),
    }
}
