//! Beside the locks: the least that the same client, servers and processors do with all answers awaited. A lock on
//! several servers may go on with a majority's.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::future::{try_join, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, Pipeline, Value};

use super::{Held, Hold, LEASE, Work};
use crate::bed::connect;

/// Excludes nobody: asks and gives back with two commands that do nothing, of every server.
#[derive(Clone)]
pub struct Pings(Vec<MultiplexedConnection>);

/// Hands a token on: whoever has put it back is followed by whoever waited first, whom the server
/// tells at once. Of several servers the first has the token, and all are asked before the work and after it, as
/// for a lock on them. No lease, no owner, and lost with its holder.
#[derive(Clone)]
pub struct Baton {
    node: MultiplexedConnection,
    /// All servers, that one last; none if there is no other: it tells of the token, and that is all that it is asked.
    all: Vec<MultiplexedConnection>,
    asked: Asked,
    /// Names that have been waited for, so that somebody has brought the token.
    known: Arc<Mutex<HashSet<String>>>,
}

/// What several servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// To answer.
    Pings,
    /// What quorumlock's default sends where nobody contends (Valkey 9), but for reading the record. Whatever the answers, nobody waits for another.
    Lock,
}

/// A token that is gone for so long is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of no script. Servers look for it all the same.
pub(super) const SCRIPT: &str = "0000000000000000000000000000000000000000";

impl Pings {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        Ok(Self(connect(urls).await?))
    }
}

impl Hold for Pings {
    async fn hold(&self, _: &str, work: Work) -> Result<Held> {
        ask::<Value>(&self.0, &ping()).await?;
        let held = work.run().await;
        ask::<Value>(&self.0, &ping()).await?;
        Ok(held)
    }
}

impl Baton {
    pub(super) async fn connect(urls: &[String], asked: Asked) -> Result<Self> {
        let [gate, rest @ ..] = urls else { bail!("no server") };
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE * 2));
        let client = redis::Client::open(gate.as_str())?;
        let node = client.get_multiplexed_async_connection_with_config(&patient).await?;
        let mut all = connect(rest).await?;
        if !rest.is_empty() {
            all.push(node.clone());
        }
        Ok(Self { node, all, asked, known: Arc::default() })
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
        Ok(first.query_async(&mut self.node.clone()).await?)
    }
}

impl Hold for Baton {
    /// One task for each connection: whoever waits keeps others on it waiting.
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut node = self.node.clone();
        // A name of its own: others find a key of another type there.
        let token = &format!("{name}:token");
        if !self.brought(name).await? {
            let mut wait = redis::cmd("BLPOP");
            let taken: Option<(String, u8)> =
                wait.arg(token).arg(PATIENCE.as_secs()).query_async(&mut node).await?;
            ensure!(taken.is_some(), "{name} was lost");
        }
        let (take, give) = match self.asked {
            Asked::Pings => (ping(), ping()),
            Asked::Lock => pair(name),
        };
        ask::<Value>(&self.all, &take).await?;
        let held = work.run().await;
        let mut put = redis::cmd("LPUSH");
        put.arg(token).arg(1);
        let put = async { Ok(put.query_async::<u64>(&mut node).await?) };
        let others = &self.all[..self.all.len().saturating_sub(1)];
        let (back, _) = try_join(put, ask::<Value>(others, &give)).await?;
        ensure!(back > 0, "{name} was not put back");
        Ok(held)
    }
}

/// Asks all of them at once, and awaits all answers.
pub(super) async fn ask<T: FromRedisValue>(
    nodes: &[MultiplexedConnection],
    what: &Pipeline,
) -> Result<Vec<T>> {
    let asked = nodes.iter().cloned();
    let asked = asked.map(|mut node| async move { Ok(what.query_async(&mut node).await?) });
    try_join_all(asked).await
}

fn ping() -> Pipeline {
    let mut ping = redis::pipe();
    ping.cmd("PING");
    ping
}

/// To take a lock with a token, with what a proof of memory costs but for reading the record, and to give it back.
fn pair(name: &str) -> (Pipeline, Pipeline) {
    let (mut take, mut give) = (redis::pipe(), redis::pipe());
    take.atomic().cmd("SCRIPT").arg("EXISTS").arg(SCRIPT);
    join((&mut take, &mut give), name, &nonce(), true);
    (take, give)
}

/// Adds what takes one name, with a token or without, and what gives it back.
pub(super) fn join(
    (take, give): (&mut Pipeline, &mut Pipeline),
    name: &str,
    nonce: &str,
    token: bool,
) {
    let key = format!("{name}:lock");
    take.cmd("SET").arg(&key).arg(nonce).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
    if token {
        take.cmd("INCR").arg(format!("{name}:counter"));
    }
    give.cmd("DELIFEQ").arg(&key).arg(nonce);
}

pub(super) fn nonce() -> String {
    format!("{:032x}", rand::random::<u128>())
}
