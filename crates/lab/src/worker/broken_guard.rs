//! Deliberately broken locks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_protocol::quorum_of;
use quorumlock_watchdog::Clock;

use super::config::Config;
use crate::scenario::{BrokenLockKind, ReadWrite};
use quorumlock_sim::Dice;
use quorumlock_testbed::servers::ask;

/// A broken lock on one node, or on a majority of several nodes.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    kind: BrokenLockKind,
    nodes: Arc<[SocketAddr]>,
    name: String,
    owner: String,
    seed: u64,
    attempts: Arc<AtomicU64>,
    /// Whether a release got no answer and is sent again.
    unanswered: Arc<AtomicBool>,
    lease: Duration,
    /// How many a node lets in, if it counts.
    permits: u32,
    /// Whether it is held for writing, if readers go first.
    writes: bool,
}

const RELEASE_MINE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Succeeds also if the key already has our value, so that a request may be sent again.
const TAKE_OR_MINE: &str = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) \
     or redis.call('get', KEYS[1]) == ARGV[1] then return 'OK' end return ''";

const ENTER: &str = "if redis.call('exists', KEYS[1]) == 1 \
     and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return '' end \
     redis.call('hincrby', KEYS[1], ARGV[1], 1) \
     redis.call('pexpire', KEYS[1], ARGV[2]) return 'OK'";

const LEAVE: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 \
     and redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then redis.call('del', KEYS[1]) end \
     return 'OK'";

/// Lets in fewer than so many. A member's score is the end of its lease.
const COUNT_IN: &str = "local t = redis.call('time') \
     local now = t[1] * 1000 + math.floor(t[2] / 1000) \
     redis.call('zremrangebyscore', KEYS[1], '-inf', now) \
     if not redis.call('zscore', KEYS[1], ARGV[1]) \
     and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return '' end \
     redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) \
     redis.call('pexpire', KEYS[1], ARGV[2]) return 'OK'";

/// Lets in any number of readers, or one writer, whose member begins with `w:`. A member's score is the
/// end of its lease.
const ENTER_SET: &str = "local t = redis.call('time') \
     local now = t[1] * 1000 + math.floor(t[2] / 1000) \
     redis.call('zremrangebyscore', KEYS[1], '-inf', now) \
     local first = redis.call('zrange', KEYS[1], 0, 0)[1] \
     if first and (string.sub(first, 1, 2) == 'w:' or string.sub(ARGV[1], 1, 2) == 'w:') \
     then return '' end \
     redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) \
     redis.call('pexpire', KEYS[1], ARGV[2]) return 'OK'";

impl Broken {
    pub(super) fn new(
        config: &Config,
        kind: BrokenLockKind,
        lease: Duration,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let address = |url: &String| url.trim_start_matches("redis://").parse();
        let nodes = config.urls.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            kind,
            nodes: nodes.into(),
            name: config.locking.name.clone(),
            owner: config.client.clone(),
            // The run's seed, not the client's, so that all clients draw the same values.
            seed: config.seed,
            attempts: Arc::default(),
            unanswered: Arc::default(),
            lease,
            permits: config.locking.permits.unwrap_or(1),
            writes: config.work.read_write == Some(ReadWrite::Write),
        })
    }

    /// The value that the nodes have now, and until when.
    pub(super) async fn try_lock(&self) -> Result<Option<(String, Instant)>, String> {
        let until = Clock::system().now() + self.lease;
        let value = match self.kind {
            BrokenLockKind::RepeatsNonce => {
                let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
                format!("{:016x}", Dice::new(self.seed, attempt).next_u64())
            }
            // Each task of a client is a reader of its own.
            BrokenLockKind::ReadersFirst => {
                let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
                let how = if self.writes { "w" } else { "r" };
                format!("{how}:{}/{attempt}", self.owner)
            }
            _ => self.owner.clone(),
        };
        if !self.takes(&value).await? {
            if self.nodes.len() > 1 {
                self.on_majority(&self.give(&value)).await?;
            }
            return Ok(None);
        }
        if self.kind == BrokenLockKind::CountsHolds {
            // An inner hold, whose release is sent twice, as if the first one got no answer.
            self.on_majority(&self.take(&value)).await?;
            self.on_majority(&self.give(&value)).await?;
            self.on_majority(&self.give(&value)).await?;
        }
        if self.unanswered.swap(false, Ordering::SeqCst) {
            // Like a driver without an answer: the release is sent again, so late that its owner holds
            // again, whatever the timing.
            let (late, value) = (self.clone(), value.clone());
            tokio::spawn(async move { late.on_majority(&late.give(&value)).await });
        }
        Ok(Some((value, until)))
    }

    pub(super) async fn release(&self, value: &str) -> Result<(), String> {
        self.on_majority(&self.give(value)).await?;
        if self.kind == BrokenLockKind::ReleaseByOwner {
            self.unanswered.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    fn take(&self, value: &str) -> Vec<String> {
        let lease = self.lease.as_millis().to_string();
        let (name, lease) = (self.name.as_str(), lease.as_str());
        match self.kind {
            BrokenLockKind::NoExclusion => words(&["SET", name, value, "PX", lease]),
            BrokenLockKind::ReleaseByOwner => words(&["SET", name, value, "PX", lease, "NX"]),
            BrokenLockKind::CountsHolds => words(&["EVAL", ENTER, "1", name, value, lease]),
            BrokenLockKind::RepeatsNonce => words(&["EVAL", TAKE_OR_MINE, "1", name, value, lease]),
            BrokenLockKind::CountsPermits { .. } => {
                let permits = self.permits.to_string();
                words(&["EVAL", COUNT_IN, "1", name, value, lease, &permits])
            }
            BrokenLockKind::ReadersFirst => words(&["EVAL", ENTER_SET, "1", name, value, lease]),
        }
    }

    fn give(&self, value: &str) -> Vec<String> {
        let script = match self.kind {
            BrokenLockKind::CountsPermits { .. } | BrokenLockKind::ReadersFirst => {
                return words(&["ZREM", &self.name, value]);
            }
            BrokenLockKind::CountsHolds => LEAVE,
            _ => RELEASE_MINE,
        };
        words(&["EVAL", script, "1", &self.name, value])
    }

    /// Whether a majority of the nodes has the value now.
    async fn takes(&self, value: &str) -> Result<bool, String> {
        let take = self.take(value);
        let BrokenLockKind::CountsPermits { first } = self.kind else {
            return self.on_majority(&take).await;
        };
        // One node after the other, and no more than are needed, so that clients that begin at
        // different nodes get in whatever the timing.
        let (mut granted, needed) = (0, quorum_of(self.nodes.len()));
        for node in self.nodes.iter().cycle().skip(first).take(self.nodes.len()).copied() {
            let take = take.clone();
            let asked = tokio::task::spawn_blocking(move || ask(node, &take)).await;
            let answer = asked.map_err(|error| error.to_string())?;
            granted += usize::from(answer.map_err(|error| error.to_string())? == "OK");
            if granted == needed {
                break;
            }
        }
        Ok(granted == needed)
    }

    /// Sends the command to all nodes. Whether a majority of the nodes accepted it.
    async fn on_majority(&self, words: &[String]) -> Result<bool, String> {
        let (nodes, words) = (Arc::clone(&self.nodes), words.to_vec());
        let needed = quorum_of(nodes.len());
        let asked = tokio::task::spawn_blocking(move || {
            nodes.iter().map(|node| ask(*node, &words)).collect::<Vec<_>>()
        });
        let answers = asked.await.map_err(|error| error.to_string())?;
        let granted = answers.iter().filter(|answer| matches!(answer.as_deref(), Ok("OK"))).count();
        match answers.into_iter().find_map(Result::err) {
            Some(error) if granted < needed => Err(error.to_string()),
            _ => Ok(granted >= needed),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
