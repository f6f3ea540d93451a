//! The `redis` crate by hand, as the measure of all others.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::join_all;
use redis::Script;
use redis::aio::MultiplexedConnection;

use super::{Held, Hold, LEASE, RETRY, Work};
use crate::bed::connect;

/// Connections and scripts.
#[derive(Clone)]
pub struct Raw {
    nodes: Vec<MultiplexedConnection>,
    scripts: Arc<Scripts>,
}

struct Scripts {
    acquire: Script,
    release: Script,
    /// quorumlock's own scripts, with all their arguments.
    tokens: bool,
}

impl Raw {
    pub(super) async fn connect(urls: &[String], tokens: bool) -> Result<Self> {
        let nodes = connect(urls).await?;
        let scripts = match (tokens, urls) {
            (true, _) => Scripts {
                acquire: Script::new(&[UNBOUND, TOKEN, QUEUE, ACQUIRE].concat()),
                release: Script::new(&[WAKE, RELEASE].concat()),
                tokens,
            },
            (false, [_]) => Scripts {
                acquire: Script::new(PLAIN_ACQUIRE),
                release: Script::new(PLAIN_RELEASE),
                tokens,
            },
            (false, _) => {
                let release = Script::new(COMPARE_AND_DELETE);
                Scripts { acquire: release.clone(), release, tokens }
            }
        };
        Ok(Self { nodes, scripts: Arc::new(scripts) })
    }

    async fn hold_one(
        &self,
        node: &mut MultiplexedConnection,
        name: &str,
        work: Work,
    ) -> Result<Held> {
        let field = format!("{:032x}:1", rand::random::<u128>());
        let ttl = LEASE.as_millis() as u64;
        loop {
            let mut acquire = self.scripts.acquire.key(name);
            if self.scripts.tokens {
                acquire.key(token_key(name)).arg(&field).arg(ttl).arg(1).arg(0);
                acquire.arg(1_700_000_000_000_000_u64).arg(604_800_000).arg(1);
            } else {
                acquire.arg(&field).arg(ttl);
            }
            // Granted is an integer, busy is a list.
            let said: redis::Value = acquire.invoke_async(node).await?;
            if matches!(said, redis::Value::Int(_)) {
                break;
            }
            pause().await;
        }
        let held = work.run().await;
        let release = &self.scripts.release;
        let mut release = release.key(name);
        release.key(channel(name));
        if self.scripts.tokens {
            release.key(format!("redisson_lock_waiters:{{{name}}}"));
        }
        let freed: u64 = release.arg(&field).invoke_async(node).await?;
        ensure!(freed > 0, "{name} was gone");
        Ok(held)
    }

    async fn hold_several(&self, name: &str, work: Work) -> Result<Held> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        let quorum = self.nodes.len() / 2 + 1;
        loop {
            let asked = self.nodes.iter().cloned().map(|mut node| {
                let mut set = redis::cmd("SET");
                set.arg(name).arg(&nonce).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
                async move { set.query_async::<bool>(&mut node).await }
            });
            let said = join_all(asked).await;
            if said.iter().filter(|said| matches!(said, Ok(true))).count() >= quorum {
                break;
            }
            self.release_all(name, &nonce).await;
            pause().await;
        }
        let held = work.run().await;
        let freed = self.release_all(name, &nonce).await;
        ensure!(freed >= quorum, "{name} was gone");
        Ok(held)
    }

    async fn release_all(&self, name: &str, nonce: &str) -> usize {
        let asked = self.nodes.iter().cloned().map(|mut node| async move {
            let release = &self.scripts.release;
            release.key(name).arg(nonce).invoke_async::<u64>(&mut node).await
        });
        join_all(asked).await.iter().filter(|said| matches!(said, Ok(1..))).count()
    }
}

impl Hold for Raw {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        match &self.nodes[..] {
            [node] => self.hold_one(&mut node.clone(), name, work).await,
            _ => self.hold_several(name, work).await,
        }
    }
}

async fn pause() {
    let nanos = rand::random_range(0..RETRY.as_nanos() as u64);
    tokio::time::sleep(Duration::from_nanos(nanos)).await;
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

fn token_key(name: &str) -> String {
    format!("redisson_lock_token:{{{name}}}")
}

/// Redisson's layout, without tokens.
const PLAIN_ACQUIRE: &str = "\
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return {redis.call('pttl', KEYS[1])}
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1";
const PLAIN_RELEASE: &str = "\
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('del', KEYS[1])
return 1 + redis.call('publish', KEYS[2], '0')";
const COMPARE_AND_DELETE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0";

const UNBOUND: &str = include_str!("../../../crates/core/src/lua/unbound.lua");
const TOKEN: &str = include_str!("../../../crates/core/src/lua/token.lua");
const QUEUE: &str = include_str!("../../../crates/core/src/lua/queue.lua");
const WAKE: &str = concat!(
    include_str!("../../../crates/core/src/lua/redisson/layout.lua"),
    include_str!("../../../crates/core/src/lua/hand.lua"),
    include_str!("../../../crates/core/src/lua/wake.lua")
);
const ACQUIRE: &str = include_str!("../../../crates/core/src/lua/redisson/acquire.lua");
const RELEASE: &str = include_str!("../../../crates/core/src/lua/redisson/release.lua");
