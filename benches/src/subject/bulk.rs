//! Beside the locks: what the servers have time for, at most, when very many names are taken and given back.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use quorumlock_core::Instant;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};

use super::floor::{SCRIPT, ask, join, nonce};
use super::{Held, Hold, Work};
use crate::bed::{connect, now};

/// Takes and gives back the locks of many tasks as if they were one: each server is written to once for all of them,
/// there is no task that waits for its own answer, and nobody asks why one was refused.
#[derive(Clone)]
pub struct Bulk {
    nodes: Vec<MultiplexedConnection>,
    /// With tokens and a proof of memory: as the default does.
    tokens: bool,
}

/// While the servers work for some of the tasks, others are written for.
const CROWDS: usize = 4;
/// So many acquisitions share a transaction at most, as quorumlock's do.
const SHARED: usize = 32;
/// As large as the record that a proven server reads for each transaction.
const RECORD: &str = "bench:record";
const FIELDS: [&str; 8] =
    ["stamp", "floor", "fmax", "life", "cluster", "epoch", "nodes", "longest_ms"];

impl Bulk {
    pub(super) async fn connect(urls: &[String], tokens: bool) -> Result<Self> {
        let nodes = connect(urls).await?;
        let mut record = redis::pipe();
        record.hset_multiple(RECORD, &FIELDS.map(|field| (field, format!("{:032x}", 0))));
        ask::<Value>(&nodes, &record).await?;
        Ok(Self { nodes, tokens })
    }

    /// Takes all of these and gives them back, over and over, until `end`: how often.
    ///
    /// # Errors
    /// If a server fails, or did not hold one of them.
    pub async fn pairs(&self, names: &[String], end: Instant) -> Result<usize> {
        let crowds = names.chunks(names.len().div_ceil(CROWDS).max(1)).map(async |names| {
            let (take, give) = self.pair(names);
            let mut pairs = 0;
            while now() < end {
                ask::<Value>(&self.nodes, &take).await?;
                give_back(&self.nodes, &give, names.len()).await?;
                pairs += names.len();
            }
            Ok::<_, anyhow::Error>(pairs)
        });
        Ok(try_join_all(crowds).await?.into_iter().sum())
    }

    fn pair(&self, names: &[String]) -> (Pipeline, Pipeline) {
        let nonce = nonce();
        let (mut take, mut give) = (redis::pipe(), redis::pipe());
        for names in names.chunks(SHARED) {
            if self.tokens {
                take.cmd("MULTI").cmd("SCRIPT").arg("EXISTS").arg(SCRIPT);
                take.cmd("HMGET").arg(RECORD).arg(&FIELDS[..3]);
            }
            for name in names {
                join((&mut take, &mut give), name, &nonce, self.tokens);
            }
            if self.tokens {
                take.cmd("EXEC");
            }
        }
        (take, give)
    }
}

impl Hold for Bulk {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let (take, give) = self.pair(&[name.to_owned()]);
        ask::<Value>(&self.nodes, &take).await?;
        let held = work.run().await;
        give_back(&self.nodes, &give, 1).await?;
        Ok(held)
    }
}

async fn give_back(nodes: &[MultiplexedConnection], give: &Pipeline, names: usize) -> Result<()> {
    for freed in ask::<Vec<u64>>(nodes, give).await? {
        ensure!(freed.iter().sum::<u64>() == names as u64, "some were not held");
    }
    Ok(())
}
