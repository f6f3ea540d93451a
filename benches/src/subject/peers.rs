//! Other crates, each used as its documentation says. Crates that poll all poll equally often.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use redis_027::aio::MultiplexedConnection;
use redis_lock::LockAcrossOptions;
use tokio::sync::Mutex;

use super::hold::{Held, Hold, LEASE, RETRY, Work};

/// `rslock`.
#[derive(Clone)]
pub struct Rslock(rslock::LockManager);

impl Rslock {
    pub(super) fn new(urls: &[String]) -> Self {
        let mut manager = rslock::LockManager::new(urls.iter().map(String::as_str).collect());
        manager.set_retry(1, RETRY);
        Self(manager)
    }
}

impl Hold for Rslock {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        // The crate's own loop retries without a pause, or with a pause inside each round, so the
        // bench retries itself.
        let lock = loop {
            match self.0.lock(name, LEASE).await {
                Ok(lock) => break lock,
                Err(rslock::LockError::Unavailable) => {
                    let nanos = rand::random_range(0..RETRY.as_nanos() as u64);
                    tokio::time::sleep(std::time::Duration::from_nanos(nanos)).await;
                }
                Err(error) => return Err(anyhow!("{error:?}")),
            }
        };
        let held = work.run().await;
        self.0.unlock(&lock).await;
        Ok(held)
    }
}

/// `redis-lock`, with the older `redis` crate that it needs.
#[derive(Clone)]
pub struct RedisLock(Vec<Arc<Mutex<MultiplexedConnection>>>);

impl RedisLock {
    pub(super) async fn connect(urls: &[String]) -> Result<Self> {
        let mut nodes = Vec::new();
        for url in urls {
            let client = redis_027::Client::open(url.as_str())?;
            let connection = client.get_multiplexed_async_connection().await?;
            nodes.push(Arc::new(Mutex::new(connection)));
        }
        Ok(Self(nodes))
    }
}

impl Hold for RedisLock {
    /// The same connections behind new mutexes. With shared mutexes tasks would wait for each
    /// other.
    fn for_task(&self) -> Self {
        let apart = |node: &Arc<Mutex<MultiplexedConnection>>| {
            let connection = node.try_lock().ok().map(|connection| connection.clone());
            connection.map_or_else(|| node.clone(), |connection| Arc::new(Mutex::new(connection)))
        };
        Self(self.0.iter().map(apart).collect())
    }

    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let options = LockAcrossOptions { ttl: LEASE, retry: RETRY / 2, duration: LEASE };
        let held = redis_lock::lock_across(&self.0, name, work.run(), options).await;
        held.map_err(|error| anyhow!("{error}"))
    }
}
