//! The `redis` crate by hand for the kinds that plain commands do not take in one step: a script
//! takes and a script gives back, on one server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use redis::Script;
use redis::aio::MultiplexedConnection;

use super::hold::{Held, Hold, LEASE, Work};
use super::raw::{nonce, pause};
use super::what::{What, several};

/// A connection, and the digests of the scripts.
#[derive(Clone)]
pub struct Scripted {
    node: MultiplexedConnection,
    what: What,
    take: Arc<str>,
    give: Arc<str>,
}

/// Longer than any run.
const LONG: Duration = Duration::from_secs(3_600);

const TAKE_ALL: &str = "\
if redis.call('exists', unpack(KEYS)) > 0 then
  return 0
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'px', ARGV[2])
end
return 1";

const TAKE_ONE: &str = "\
for slot, key in ipairs(KEYS) do
  if redis.call('set', key, ARGV[1], 'nx', 'px', ARGV[2]) then
    return slot
  end
end
return 0";

const GIVE: &str = "\
local freed = 0
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then
    freed = freed + redis.call('del', key)
  end
end
return freed";

impl Scripted {
    pub(super) async fn load(mut node: MultiplexedConnection, what: What) -> Result<Self> {
        let take = match what {
            What::Names(_) => TAKE_ALL,
            What::Permit { .. } => TAKE_ONE,
            What::Lock => bail!("plain commands take a lock"),
            What::Read | What::Write | What::InOrder => bail!("no script takes it"),
        };
        let (take, give) = (Script::new(take), Script::new(GIVE));
        for script in [&take, &give] {
            script.load_async(&mut node).await?;
        }
        Ok(Self { node, what, take: take.get_hash().into(), give: give.get_hash().into() })
    }

    /// Takes the first permits of a name, and never gives them back.
    pub(super) async fn occupy(&self, name: &str) -> Result<()> {
        for key in self.keys(name).iter().take(self.what.held() as usize) {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(nonce()).arg("PX").arg(LONG.as_millis() as u64);
            set.query_async::<()>(&mut self.node.clone()).await?;
        }
        Ok(())
    }

    fn keys(&self, name: &str) -> Vec<String> {
        let count = match self.what {
            What::Names(count) => count,
            What::Permit { of, .. } => of as usize,
            _ => 1,
        };
        several(name, count).collect()
    }

    async fn run(&self, script: &str, keys: &[String], nonce: &str) -> Result<usize> {
        let mut run = redis::cmd("EVALSHA");
        run.arg(script).arg(keys.len()).arg(keys).arg(nonce).arg(LEASE.as_millis() as u64);
        Ok(run.query_async(&mut self.node.clone()).await?)
    }
}

impl Hold for Scripted {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let (keys, nonce) = (self.keys(name), nonce());
        let taken = loop {
            match self.run(&self.take, &keys, &nonce).await? {
                0 => pause().await,
                taken => break taken,
            }
        };
        let held = work.run().await;
        let keys = match self.what {
            What::Permit { .. } => &keys[taken - 1..taken],
            _ => &keys[..],
        };
        ensure!(self.run(&self.give, keys, &nonce).await? == keys.len(), "{name} was gone");
        Ok(held)
    }
}
