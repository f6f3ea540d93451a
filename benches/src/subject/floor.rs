//! What no lock can go below with the same client, servers and processors.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail, ensure};
use futures::future::try_join_all;
use redis::aio::MultiplexedConnection;

use super::{Held, Hold, Work};
use crate::bed::connect;

/// Excludes nobody: asks and gives back with two commands that do nothing, of every server.
#[derive(Clone)]
pub struct Pings(Vec<MultiplexedConnection>);

/// Hands a token on: whoever has put it back is followed by whoever waited first, whom the server
/// tells at once. No lease, no owner, and lost with its holder.
#[derive(Clone)]
pub struct Baton {
    node: MultiplexedConnection,
    /// Names that have been waited for, so that somebody has brought the token.
    known: Arc<Mutex<HashSet<String>>>,
}

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
        let Ok([node]) = <[_; 1]>::try_from(connect(urls).await?) else {
            bail!("one server only");
        };
        Ok(Self { node, known: Arc::default() })
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
        if !self.brought(name).await? {
            let mut wait = redis::cmd("BLPOP");
            let taken: Option<(String, u8)> = wait.arg(name).arg(10).query_async(&mut node).await?;
            ensure!(taken.is_some(), "{name} was lost");
        }
        let held = work.run().await;
        let back: u64 = redis::cmd("LPUSH").arg(name).arg(1).query_async(&mut node).await?;
        ensure!(back > 0, "{name} was not put back");
        Ok(held)
    }
}
