//! Beside the locks: what the same client, servers and processors do without one. They exclude
//! nobody.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::future::{try_join, try_join_all};
use quorumlock_core::Instant;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, Value};

use super::raw::{load, nonce};
use super::{Held, Hold, LEASE, Work};
use crate::testbed::{connect, now};
use crate::workload::Names;

/// Asks and gives back with two commands that do nothing, of every server.
#[derive(Clone)]
pub struct Pings(Vec<MultiplexedConnection>);

/// Hands a token on: whoever has put it back is followed by whoever waited first, whom the server
/// tells at once. Of several servers the first has the token, and all are asked before the work
/// and after it, as for a lock on them. No lease, no owner, and lost with its holder.
#[derive(Clone)]
pub struct TokenRing {
    first: MultiplexedConnection,
    others: Vec<MultiplexedConnection>,
    /// Names that have been waited for, so that somebody has brought the token.
    known: Arc<Mutex<HashSet<String>>>,
}

/// Takes and gives back the locks of many tasks as if they were one: four pipelines to each
/// server, no task that waits for its own answer.
#[derive(Clone)]
pub struct Bulk {
    nodes: Vec<MultiplexedConnection>,
    /// The digest of the script that gives back, where the server has no command for it.
    script: Option<Arc<str>>,
}

/// A token that is gone for so long is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// While the servers work for some of the tasks, others are written for.
const CROWDS: usize = 4;

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

    /// Whoever of all processes comes first brings the token.
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
    /// One task for each connection: whoever waits keeps others on it waiting.
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut first = self.first.clone();
        // A name of its own: others find a key of another type there.
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

    /// Takes a name for each task and gives all of them back, over and over, until `end`: how
    /// many.
    ///
    /// # Errors
    /// If a server fails, or did not hold one of them.
    pub(crate) async fn pairs(&self, tasks: usize, names: &Names, end: Instant) -> Result<usize> {
        let tasks: Vec<_> = (0..tasks).collect();
        let crowds = tasks.chunks(tasks.len().div_ceil(CROWDS)).map(async |tasks| {
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
        Ok(try_join_all(crowds).await?.into_iter().sum())
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

/// Asks all of them at once, and awaits all answers.
async fn ask<T: redis::FromRedisValue>(
    nodes: &[MultiplexedConnection],
    what: &Pipeline,
) -> Result<Vec<T>> {
    let asked = nodes.iter().cloned();
    let asked = asked.map(|mut node| async move { Ok(what.query_async(&mut node).await?) });
    try_join_all(asked).await
}
