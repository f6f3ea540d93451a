//! A health check tries what a lock does: a node takes and gives back a lock of a reserved name.

use std::time::Duration;

use quorumlock::NodeProblem;
use quorumlock_redis::permissions::{PROBE_KEY, is_forbidden};
use quorumlock_watchdog::Clock;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Value, cmd};
use serde::Serialize;

/// What a node did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub(crate) enum Trial {
    /// It took and gave back the lock.
    Taken {
        /// How long that took.
        #[serde(rename = "took_us", serialize_with = "micros")]
        took: Duration,
        /// How long a lock waits for an answer.
        #[serde(skip)]
        within: Duration,
    },
    /// It refused the lock, or took too long.
    Refused {
        why: String,
        /// What to do about it.
        #[serde(rename = "do")]
        remedy: &'static str,
    },
    /// The user may not write: nothing was tried.
    NotAllowed,
    /// The name belongs to another member of the Redis Cluster: nothing was tried.
    Elsewhere,
}

/// As long as a process that ends in between leaves the key.
const LEASE_MS: u64 = 1_000;

impl Trial {
    /// What to do about a node that takes too long.
    pub(crate) const SLOW: &str =
        "look for slow commands (SLOWLOG GET) and a full processor, or raise --answer-timeout";

    /// Tries it; a lock gives up on an answer `within` that time.
    pub(crate) async fn of(
        node: &mut MultiplexedConnection,
        clock: &Clock,
        within: Duration,
    ) -> RedisResult<Self> {
        let begun = clock.now();
        let mut set = cmd("SET");
        set.arg(PROBE_KEY).arg("").arg("PX").arg(LEASE_MS);
        for command in [&set, cmd("DEL").arg(PROBE_KEY)] {
            match command.query_async::<Value>(node).await {
                Err(error) if error.is_io_error() => return Err(error),
                Err(error) => return Ok(Self::refused(&error)),
                Ok(_) => {}
            }
        }
        // Two requests, one after the other: a lock waits for each.
        let took = clock.now().since(begun);
        if took > 2 * within {
            let why = NodeProblem::NoAnswer(within).to_string();
            return Ok(Self::Refused { why, remedy: Self::SLOW });
        }
        Ok(Self::Taken { took, within })
    }

    /// Whether the node refuses locks.
    pub(crate) fn refuses(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    fn refused(error: &RedisError) -> Self {
        let text = error.to_string();
        match error.code() {
            Some("NOPERM") => Self::NotAllowed,
            _ if is_forbidden(&text) => Self::NotAllowed,
            Some("MOVED" | "ASK") => Self::Elsewhere,
            Some(code) => {
                let detail = error.detail().unwrap_or_default();
                Self::from(NodeProblem::from_reply(&format!("{code} {detail}")))
            }
            None => Self::from(NodeProblem::from_reply(&text)),
        }
    }
}

impl From<NodeProblem> for Trial {
    fn from(problem: NodeProblem) -> Self {
        let remedy = problem.hint().unwrap_or("look at the server's log");
        Self::Refused { why: problem.to_string(), remedy }
    }
}

/// A time as whole microseconds.
pub(crate) fn micros<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_micros().try_into().unwrap_or(u64::MAX))
}
