//! What no lock can go below with the same client, servers and processors.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::future::{try_join, try_join_all};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::{Held, Hold, Work};
use crate::bed::connect;

/// Excludes nobody: asks and gives back with two commands that do nothing, of every server.
#[derive(Clone)]
pub struct Pings(Vec<MultiplexedConnection>);

/// Hands a token on: whoever has put it back is followed by whoever waited first, whom the server
/// tells at once. Of several servers the first has the token, and all are asked before the work and after it, as
/// for a lock on them, with commands that do nothing. No lease, no owner, and lost with its holder.
#[derive(Clone)]
pub struct Baton {
    node: MultiplexedConnection,
    /// The other servers, and all of them.
    others: Pings,
    all: Pings,
    /// Names that have been waited for, so that somebody has brought the token.
    known: Arc<Mutex<HashSet<String>>>,
}

/// A token that is gone for so long is lost.
const PATIENCE: Duration = Duration::from_secs(10);

impl Pings {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        Ok(Self(connect(urls).await?))
    }

    async fn ping(&self) -> Result<()> {
        let asked = self.0.iter().cloned().map(|mut node| async move {
            let pong: String = redis::cmd("PING").query_async(&mut node).await?;
            ensure!(pong == "PONG", "{pong}");
            Ok(())
        });
        try_join_all(asked).await.map(drop)
    }
}

impl Hold for Pings {
    async fn hold(&self, _: &str, work: Work) -> Result<Held> {
        self.ping().await?;
        let held = work.run().await;
        self.ping().await?;
        Ok(held)
    }
}

impl Baton {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        let [gate, rest @ ..] = urls else { bail!("no server") };
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE * 2));
        let client = redis::Client::open(gate.as_str())?;
        let node = client.get_multiplexed_async_connection_with_config(&patient).await?;
        let others = connect(rest).await?;
        let mut all = others.clone();
        // One server tells of the token, and that is all that it is asked.
        if !rest.is_empty() {
            all.push(node.clone());
        }
        Ok(Self { node, others: Pings(others), all: Pings(all), known: Arc::default() })
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
        self.all.ping().await?;
        let held = work.run().await;
        let mut put = redis::cmd("LPUSH");
        put.arg(token).arg(1);
        let put = async { Ok(put.query_async::<u64>(&mut node).await?) };
        let (back, ()) = try_join(put, self.others.ping()).await?;
        ensure!(back > 0, "{name} was not put back");
        Ok(held)
    }
}
