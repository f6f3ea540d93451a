//! Tries each command that a lock needs. The calls change nothing but one key of our own, which expires.

use quorumlock_redis::permissions::{PERMISSIONS, PROBE_KEY, is_forbidden};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, RedisResult, Value, cmd};

/// What the user lacks, as `ACL SETUSER` would grant it: `+time`, `~quorumlock:*`.
pub(super) async fn missing(
    client: &Client,
    node: &mut MultiplexedConnection,
) -> RedisResult<Vec<String>> {
    let mut missing = Missing::default();
    for row in PERMISSIONS {
        let mut call = cmd(row.command.split('|').next().unwrap_or_default());
        match row.command {
            // These are tried below.
            "multi" | "exec" | "subscribe" | "unsubscribe" => continue,
            "select" => call.arg(client.get_connection_info().redis_settings().db()),
            _ => call.arg(row.probe),
        };
        missing.note(row.command, call.query_async::<Value>(node).await)?;
    }
    if missing.note("multi", cmd("MULTI").query_async::<Value>(node).await)? {
        missing.note("exec", cmd("EXEC").query_async::<Value>(node).await)?;
    }
    let mut subscriber = client.get_async_pubsub().await?;
    if missing.note("subscribe", subscriber.subscribe(CHANNEL).await)? {
        missing.note("unsubscribe", subscriber.unsubscribe(CHANNEL).await)?;
    }
    // Where DEL is refused, the key has an expiry.
    drop(cmd("DEL").arg(PROBE_KEY).query_async::<Value>(node).await);
    Ok(missing.0)
}

const CHANNEL: &str = "quorumlock:wake:doctor";

#[derive(Default)]
struct Missing(Vec<String>);

impl Missing {
    /// Notes what the answer says is missing. Returns whether nothing is.
    fn note<T>(&mut self, command: &str, answer: RedisResult<T>) -> RedisResult<bool> {
        let Err(error) = answer else { return Ok(true) };
        if error.is_io_error() {
            return Err(error);
        }
        let Some(right) = right(command, &error) else { return Ok(true) };
        if !self.0.contains(&right) {
            self.0.push(right);
        }
        Ok(false)
    }
}

/// The right that the error says is missing.
fn right(command: &str, error: &RedisError) -> Option<String> {
    let text = error.to_string();
    let refused = error.code() == Some("NOPERM") || is_forbidden(&text);
    let accesses = |what| text.contains("access") && text.contains(what);
    refused.then(|| match () {
        () if accesses("channel") => "&quorumlock:*".to_owned(),
        () if accesses("key") => "~quorumlock:*".to_owned(),
        () => format!("+{command}"),
    })
}
