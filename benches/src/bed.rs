//! The servers that all subjects share.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quorumlock::Locker;
use quorumlock_core::{Clock, Instant};
use quorumlock_lab::servers::{Server, Servers};
use redis::aio::MultiplexedConnection;

use crate::cpu::{self, Core};
use crate::relay::Relay;
use crate::stats::micros;

/// Independent servers, in groups of 1, 3, 5, ...; started when first needed.
#[derive(Default)]
pub struct Bed {
    groups: BTreeMap<usize, Group>,
    /// Processes stay on the processor that the workload gives them.
    pinned: bool,
}

/// Servers that make one lock service, and a connection to each to ask it how it is.
pub struct Group {
    /// `None` if another process runs them.
    servers: Option<Servers>,
    urls: Vec<String>,
    watch: Vec<MultiplexedConnection>,
    pinned: bool,
}

/// What servers had done at some instant.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// Commands from clients, on all servers.
    pub commands: u64,
    /// Processor time of all servers, in microseconds.
    pub cpu: f64,
}

/// A connection of the raw client to each.
///
/// # Errors
/// If one does not answer.
pub(crate) async fn connect(urls: &[String]) -> Result<Vec<MultiplexedConnection>> {
    let mut nodes = Vec::new();
    for url in urls {
        let client = redis::Client::open(url.as_str())?;
        nodes.push(client.get_multiplexed_async_connection().await?);
    }
    Ok(nodes)
}

impl Bed {
    /// Nothing is started yet.
    #[must_use]
    pub fn new(pinned: bool) -> Self {
        Self { groups: BTreeMap::new(), pinned }
    }

    /// A group of `nodes` servers, whose memory is vouched for.
    ///
    /// # Errors
    /// If they cannot be started.
    pub async fn group(&mut self, nodes: usize) -> Result<&Group> {
        if !self.groups.contains_key(&nodes) {
            let group = Group::start(nodes, self.pinned).await?;
            self.groups.insert(nodes, group);
        }
        self.groups.get(&nodes).context("just started")
    }

    /// Servers of one's own, to break.
    ///
    /// # Errors
    /// If they cannot be started.
    pub async fn fresh(&self, nodes: usize) -> Result<Group> {
        Group::start(nodes, self.pinned).await
    }

    /// From now on we and the processes that we start run on this processor, but for servers.
    pub fn clients_on(&self, core: Core) {
        if self.pinned {
            cpu::pin(None, core);
        }
    }

    /// What the servers say they are.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let servers = self.groups.values().find_map(|group| group.servers.as_ref())?;
        servers.iter().next()?.version().map(ToString::to_string)
    }
}

impl Group {
    async fn start(nodes: usize, pinned: bool) -> Result<Self> {
        let servers = Servers::start(nodes)?;
        if pinned {
            servers.iter().for_each(|server| cpu::pin(server.pid(), Core::Servers));
        }
        if nodes > 1 {
            Locker::quorum(servers.urls())?.provision().await?;
        }
        let group = Self::of(&servers.urls()).await?;
        Ok(Self { servers: Some(servers), pinned, ..group })
    }

    /// Servers that another process runs.
    ///
    /// # Errors
    /// If they do not answer.
    pub async fn of(urls: &[String]) -> Result<Self> {
        let watch = connect(urls).await?;
        Ok(Self { servers: None, urls: urls.to_vec(), watch, pinned: false })
    }

    /// A way to the servers that takes so long in each direction.
    ///
    /// # Errors
    /// See [`Relay::to`].
    pub async fn relay(&self, later: Duration) -> Result<Relay> {
        Relay::to(&self.urls, later, self.pinned).await
    }

    /// Of all servers.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// The servers, to break them.
    ///
    /// # Errors
    /// If another process runs them.
    pub fn servers(&self) -> Result<&Servers> {
        self.servers.as_ref().context("another process runs the servers")
    }

    /// What they have done so far. `plain` if the subject sends `SET` itself, so that those which
    /// its scripts send are not taken for commands.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn tally(&self, plain: bool) -> Result<Tally> {
        let of = |server: &Server| server.pid().and_then(cpu::used).map_or(f64::NAN, micros);
        let cpu = self.servers.iter().flatten().map(of).sum();
        let mut tally = Tally { commands: 0, cpu };
        for watch in &self.watch {
            let mut watch = watch.clone();
            let command = redis::cmd("INFO").arg("commandstats").to_owned();
            let info: String = command.query_async(&mut watch).await?;
            tally.commands += client_commands(&info, plain);
        }
        Ok(tally)
    }

    /// Half of many round trips to all servers at once take longer than this, in microseconds.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn round_trip(&self) -> Result<f64> {
        const PINGS: usize = 300;
        const LONG: Duration = Duration::from_millis(300);
        let mut watch = self.watch.clone();
        let mut times = Vec::with_capacity(PINGS);
        let begun = now();
        while times.len() < PINGS && now().since(begun) < LONG {
            let begin = now();
            let pings = watch
                .iter_mut()
                .map(|to| async { redis::cmd("PING").query_async::<String>(to).await });
            for pong in futures::future::join_all(pings).await {
                pong?;
            }
            times.push(micros(now().since(begin)));
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// The clock of all measurements; processes agree on it.
#[must_use]
pub fn now() -> Instant {
    Clock::system().now()
}

/// What scripts call counts for the server as a command, too: only those that clients send.
fn client_commands(info: &str, plain: bool) -> u64 {
    const SENT: [&str; 7] =
        ["evalsha", "eval", "fcall", "subscribe", "unsubscribe", "ssubscribe", "script|load"];
    let calls = info.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let sent = match name {
            // A release without a script: one or two more commands come with it.
            "delifeq" => 2,
            "hdel" => 3,
            // A transaction, which acquisitions share: with them MULTI and HMGET.
            "exec" | "script|exists" => 2,
            // An acquisition in it: with it SET or RESTORE. Scripts move counters by INCRBY.
            "incr" => 2,
            name => u64::from(SENT.contains(&name) || plain && name == "set"),
        };
        let calls = rest.split(',').next()?.parse::<u64>().ok()?;
        Some(sent * calls)
    });
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_call_is_no_command_of_a_client() {
        let info = "# Commandstats\r\n\
            cmdstat_set:calls=5,usec=9,usec_per_call=1.80,rejected_calls=0,failed_calls=0\r\n\
            cmdstat_info:calls=7,usec=9\r\n\
            cmdstat_script|load:calls=1,usec=9\r\n\
            cmdstat_delifeq:calls=2,usec=9\r\n\
            cmdstat_exec:calls=2,usec=9\r\n\
            cmdstat_script|exists:calls=1,usec=9\r\n\
            cmdstat_restore:calls=1,usec=9\r\n\
            cmdstat_incr:calls=2,usec=9\r\n\
            cmdstat_hdel:calls=1,usec=9\r\n\
            cmdstat_evalsha:calls=20,usec=9\r\n";
        assert_eq!(client_commands(info, false), 38);
        assert_eq!(client_commands(info, true), 43);
    }
}
