//! The `redis` crate by hand, the subject that all others are compared with.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Script};

use super::hold::{Held, Hold, LEASE, RETRY, Work};
use crate::testbed::connect;

/// Connections to all servers.
#[derive(Clone)]
pub struct Raw {
    nodes: Vec<MultiplexedConnection>,
    answers: Answers,
    /// The digest of the script that compares and deletes.
    release: Arc<str>,
}

/// The answers that the client awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    All,
    /// A majority of them.
    Majority,
}

impl Raw {
    pub(super) async fn connect(urls: &[String], answers: Answers) -> Result<Self> {
        let mut nodes = connect(urls).await?;
        let release = load(&mut nodes).await?;
        Ok(Self { nodes, answers, release })
    }

    /// A connection to the first server.
    pub(super) fn first(&self) -> Result<MultiplexedConnection> {
        self.nodes.first().cloned().context("no server")
    }

    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    async fn set(&self, name: &str, nonce: &str) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(name).arg(nonce).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        self.ask(set).await
    }

    async fn release(&self, name: &str, nonce: &str) -> bool {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.release).arg(1).arg(name).arg(nonce);
        self.ask(release).await
    }

    /// Sends a command to all nodes. Returns whether a majority said yes.
    async fn ask(&self, what: Cmd) -> bool {
        let what = Arc::new(what);
        let asked = self.nodes.iter().cloned().map(|mut node| {
            let what = Arc::clone(&what);
            async move { matches!(what.query_async::<bool>(&mut node).await, Ok(true)) }
        });
        if self.answers == Answers::All {
            let said = join_all(asked).await;
            return said.into_iter().filter(|yes| *yes).count() >= self.majority();
        }
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut yes, mut no) = (0, 0);
        while yes < self.majority()
            && no < self.majority()
            && let Some(said) = asked.next().await
        {
            *(if said { &mut yes } else { &mut no }) += 1;
        }
        // The client may not send a request if its future is dropped, so a task awaits the other
        // answers.
        if !asked.is_empty() {
            tokio::spawn(async move { while asked.next().await.is_some() {} });
        }
        yes >= self.majority()
    }
}

/// Loads the release script on all servers.
pub(super) async fn load(nodes: &mut [MultiplexedConnection]) -> Result<Arc<str>> {
    let script = Script::new(COMPARE_AND_DELETE);
    for node in nodes {
        script.load_async(node).await?;
    }
    Ok(script.get_hash().into())
}

const COMPARE_AND_DELETE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0";

impl Hold for Raw {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let nonce = nonce();
        while !self.set(name, &nonce).await {
            self.release(name, &nonce).await;
            pause().await;
        }
        let held = work.run().await;
        ensure!(self.release(name, &nonce).await, "{name} was gone");
        Ok(held)
    }
}

/// Waits before the next attempt.
pub(super) async fn pause() {
    let nanos = rand::random_range(0..RETRY.as_nanos() as u64);
    tokio::time::sleep(Duration::from_nanos(nanos)).await;
}

pub(super) fn nonce() -> String {
    format!("{:032x}", rand::random::<u128>())
}
