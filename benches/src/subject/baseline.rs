//! Baselines without a lock: what the same client, servers and processors do without mutual
//! exclusion.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::future::{try_join, try_join_all};
use quorumlock_protocol::Instant;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, Value};

use super::hold::{Held, Hold, LEASE, Work};
use super::raw::{load, nonce};
use crate::names::Names;
use crate::testbed::{connect, now};

/// Sends two `PING`s to every server, one for the acquisition and one for the release.
#[derive(Clone)]
pub struct Pings(Vec<MultiplexedConnection>);

/// Passes a token on: a task puts the token back, and the server hands it at once to the task that
/// has waited longest. Of several servers the first one has the token, and all are asked before the
/// work and after it, as for a lock on them. There is no lease and no owner, and the token is lost
/// with its holder.
#[derive(Clone)]
pub struct TokenRing {
    first: MultiplexedConnection,
    others: Vec<MultiplexedConnection>,
    /// The names whose token this process has tried to create, so that it now waits for the token.
    known: Arc<Mutex<HashSet<String>>>,
}

/// Takes and releases the locks of many tasks as if they were one: four pipelines to each server.
/// No task waits for its own answer.
#[derive(Clone)]
pub struct Bulk {
    nodes: Vec<MultiplexedConnection>,
    /// The digest of the release script, for servers without `DELIFEQ`.
    script: Option<Arc<str>>,
}

/// After this time without the token it counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of groups of tasks: while the servers work for one group, the client writes for
/// another.
const GROUPS: usize = 4;

impl Pings {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        Ok(Self(connect(urls).await?))
    }
}

impl Hold for Pings {
    async fn hold(&self, _: &str, work: Work) -> Result<Held> {
        ping(&self.0).await?;
        let held = work.run().await;
        ping(&self.0).await?;
        Ok(held)
    }
}

impl TokenRing {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        let [first, others @ ..] = urls else { bail!("no server") };
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE * 2));
        let client = redis::Client::open(first.as_str())?;
        let first = client.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(Self { first, others: connect(others).await?, known: Arc::default() })
    }

    /// Whether this call creates the token: the first call of all processes does.
    async fn brought(&self, name: &str) -> Result<bool> {
        let new = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(name.to_owned())
        };
        if !new {
            return Ok(false);
        }
        let mut first = redis::cmd("SETNX");
        first.arg(format!("{name}:begun")).arg(1);
        Ok(first.query_async(&mut self.first.clone()).await?)
    }
}

impl Hold for TokenRing {
    /// Needs one connection per task: a waiting task blocks the other tasks on its connection.
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut first = self.first.clone();
        // The token has a key of its own: other subjects would find a key of the wrong type at the
        // name.
        let token = &format!("{name}:token");
        if !self.brought(name).await? {
            let mut wait = redis::cmd("BLPOP");
            let taken: Option<(String, u8)> =
                wait.arg(token).arg(PATIENCE.as_secs()).query_async(&mut first).await?;
            ensure!(taken.is_some(), "{name} was lost");
        }
        if !self.others.is_empty() {
            try_join(ping(&self.others), ping(std::slice::from_ref(&first))).await?;
        }
        let held = work.run().await;
        let mut put = redis::cmd("LPUSH");
        put.arg(token).arg(1);
        let put = async { Ok(put.query_async::<u64>(&mut first).await?) };
        let (back, ()) = try_join(put, ping(&self.others)).await?;
        ensure!(back > 0, "{name} was not put back");
        Ok(held)
    }
}

impl Bulk {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        let mut nodes = connect(urls).await?;
        let mut probe = redis::cmd("DELIFEQ");
        let known = probe.arg("bench:probe").arg("").query_async::<Value>(&mut nodes[0]).await;
        let script = if known.is_ok() { None } else { Some(load(&mut nodes).await?) };
        Ok(Self { nodes, script })
    }

    /// Takes a name for each task and releases all of them, again and again, until `end`. Returns
    /// the number of pairs.
    ///
    /// # Errors
    /// If a server fails, or did not hold one of the names.
    pub(crate) async fn pairs(&self, tasks: usize, names: &Names, end: Instant) -> Result<usize> {
        let tasks: Vec<_> = (0..tasks).collect();
        let groups = tasks.chunks(tasks.len().div_ceil(GROUPS)).map(async |tasks| {
            let mut pairs = 0;
            while now() < end {
                let names: Vec<_> = tasks.iter().filter_map(|task| names.next(*task)).collect();
                if names.is_empty() {
                    break;
                }
                self.pair(&names, Work(None)).await?;
                pairs += names.len();
            }
            anyhow::Ok(pairs)
        });
        Ok(try_join_all(groups).await?.into_iter().sum())
    }

    async fn pair(&self, names: &[&str], work: Work) -> Result<Held> {
        let nonce = nonce();
        let (mut take, mut give) = (redis::pipe(), redis::pipe());
        for name in names {
            take.cmd("SET").arg(name).arg(&nonce).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
            match &self.script {
                None => give.cmd("DELIFEQ").arg(name),
                Some(script) => give.cmd("EVALSHA").arg(&**script).arg(1).arg(name),
            };
            give.arg(&nonce);
        }
        ask::<Vec<Value>>(&self.nodes, &take).await?;
        let held = work.run().await;
        for freed in ask::<Vec<usize>>(&self.nodes, &give).await? {
            ensure!(freed.iter().sum::<usize>() == names.len(), "some were not held");
        }
        Ok(held)
    }
}

impl Hold for Bulk {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        self.pair(&[name], work).await
    }
}

async fn ping(nodes: &[MultiplexedConnection]) -> Result<()> {
    let mut ping = redis::pipe();
    ping.cmd("PING");
    ask::<Value>(nodes, &ping).await.map(drop)
}

/// Sends the pipeline to all nodes at once, and awaits all answers.
async fn ask<T: redis::FromRedisValue>(
    nodes: &[MultiplexedConnection],
    what: &Pipeline,
) -> Result<Vec<T>> {
    let asked = nodes.iter().cloned();
    let asked = asked.map(|mut node| async move { Ok(what.query_async(&mut node).await?) });
    try_join_all(asked).await
}
