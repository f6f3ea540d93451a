//! The servers that all subjects share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use quorumlock::Locker;
use quorumlock_core::{Clock, Instant};
use quorumlock_lab::servers::{Server, ServerOptions, Servers, Source, Version};
use redis::aio::MultiplexedConnection;

use crate::cpu::{self, Core};
use crate::relay::Relay;

/// Independent servers of one program, in groups of 1, 3, 5, ...; started when first needed.
pub struct Testbed {
    source: Source,
    version: Version,
    groups: BTreeMap<usize, Arc<Group>>,
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

/// What the servers of a group have done so far, all together.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// How often they have read from their clients: what is sent together counts once.
    pub requests: f64,
    /// Processor time in microseconds.
    pub cpu: f64,
}

/// What the fullest server of a group has in memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Allocated, in bytes.
    pub bytes: f64,
    /// How many keys.
    pub keys: f64,
}

/// A connection of the `redis` crate to each.
///
/// # Errors
/// If one does not answer.
pub(crate) async fn connect(urls: &[String]) -> Result<Vec<MultiplexedConnection>> {
    try_join_all(urls.iter().map(async |url| {
        let client = redis::Client::open(url.as_str())?;
        Ok(client.get_multiplexed_async_connection().await?)
    }))
    .await
}

impl Testbed {
    /// Servers of this program; without one, of the program that tests find.
    ///
    /// # Errors
    /// If there is none, or it does not start.
    pub async fn of(program: Option<PathBuf>, pinned: bool) -> Result<Self> {
        let source = program.map_or_else(Source::discover, |path| Ok(Source::Binary(path)))?;
        let group = Group::start(&source, 1, pinned).await?;
        let version = group.servers()?[0].version().context("a server of no version")?.clone();
        Ok(Self { source, version, groups: BTreeMap::from([(1, Arc::new(group))]), pinned })
    }

    /// A group of `nodes` servers; the members of a quorum are admitted.
    ///
    /// # Errors
    /// If they cannot be started.
    pub async fn group(&mut self, nodes: usize) -> Result<Arc<Group>> {
        if !self.groups.contains_key(&nodes) {
            self.groups.insert(nodes, Arc::new(self.fresh(nodes).await?));
        }
        Ok(Arc::clone(&self.groups[&nodes]))
    }

    /// Empty servers that no other workload uses.
    ///
    /// # Errors
    /// If they cannot be started.
    pub async fn fresh(&self, nodes: usize) -> Result<Group> {
        Group::start(&self.source, nodes, self.pinned).await
    }

    /// From now on this process and those that it starts run on this processor, but for servers.
    pub fn clients_on(&self, core: Core) {
        if self.pinned {
            cpu::pin(None, core);
        }
    }

    /// Which servers these are, in short: `redis 7.0`.
    #[must_use]
    pub fn name(&self) -> String {
        let digits = self.version.number.split('.').take(2).collect::<Vec<_>>();
        format!("{} {}", self.version.product, digits.join("."))
    }

    /// Which servers these are.
    #[must_use]
    pub fn version(&self) -> String {
        self.version.to_string()
    }
}

impl Group {
    async fn start(source: &Source, nodes: usize, pinned: bool) -> Result<Self> {
        let servers = Servers::start_with(source, nodes, &ServerOptions::default())?;
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
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The servers, to break them.
    ///
    /// # Errors
    /// If another process runs them.
    pub fn servers(&self) -> Result<&Servers> {
        self.servers.as_ref().context("another process runs the servers")
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn usage(&self) -> Result<Usage> {
        let of = |server: &Server| server.pid().and_then(cpu::used).map_or(f64::NAN, micros);
        let cpu = self.servers.iter().flatten().map(of).sum();
        let requests = self.info("stats", "total_reads_processed").await?.iter().sum();
        Ok(Usage { requests, cpu })
    }

    /// What the fullest of them has in memory.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn memory(&self) -> Result<Memory> {
        let bytes = self.info("memory", "used_memory").await?;
        let keys = self.ask(redis::cmd("DBSIZE")).await?;
        let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
        Ok(Memory { bytes: most(bytes), keys: most(keys) })
    }

    /// How many clients the servers have, all together, but for the connections of this group.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn clients(&self) -> Result<f64> {
        let clients = self.info("clients", "connected_clients").await?;
        Ok(clients.iter().sum::<f64>() - self.watch.len() as f64)
    }

    /// Half of many round trips to all servers at once take longer than this, in microseconds.
    ///
    /// # Errors
    /// If one does not answer.
    pub async fn round_trip(&self) -> Result<f64> {
        const PINGS: usize = 300;
        const LONG: Duration = Duration::from_millis(300);
        let mut times = Vec::with_capacity(PINGS);
        let begun = now();
        while times.len() < PINGS && now().since(begun) < LONG {
            let begin = now();
            self.ask::<String>(redis::cmd("PING")).await?;
            times.push(micros(now().since(begin)));
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// A number of `INFO`, of each server.
    async fn info(&self, section: &str, field: &str) -> Result<Vec<f64>> {
        let mut info = redis::cmd("INFO");
        info.arg(section);
        let said = self.ask::<String>(info).await?;
        said.iter()
            .map(|text| {
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                let found = lines.find(|(name, _)| *name == field);
                let (_, value) = found.with_context(|| format!("INFO without {field}"))?;
                Ok(value.trim().parse()?)
            })
            .collect()
    }

    async fn ask<T: redis::FromRedisValue>(&self, what: redis::Cmd) -> Result<Vec<T>> {
        let asked = self.watch.iter().cloned();
        try_join_all(asked.map(async |mut node| Ok(what.query_async(&mut node).await?))).await
    }
}

/// The clock of all measurements; processes agree on it.
#[must_use]
pub fn now() -> Instant {
    Clock::system().now()
}

/// In microseconds.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
