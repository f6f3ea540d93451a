//! The servers that all subjects share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use quorumlock::Locker;
use quorumlock_protocol::Instant;
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{
    Etcd, EtcdProgram, Server, ServerOptions, Servers, Source, Version,
};
use quorumlock_watchdog::Clock;
use redis::aio::MultiplexedConnection;

use crate::cpu::{self, Core};

/// Independent servers of one program, in groups of 1, 3, 5, ...; started when first needed.
pub struct Testbed {
    source: Source,
    version: Version,
    groups: BTreeMap<usize, Arc<Group>>,
    /// Whether processes stay on the processor that the workload assigns to them.
    pinned: bool,
}

/// The servers of one lock service, and a connection to each that reads its statistics.
pub struct Group {
    /// `None` if another process runs them, or if they are members of etcd.
    servers: Option<Servers>,
    /// The members of a cluster, in place of the servers.
    etcd: Option<Etcd>,
    urls: Vec<String>,
    watch: Vec<MultiplexedConnection>,
}

/// The work of all servers of a group so far, in total.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// The number of reads from clients. Commands that arrive together count once.
    pub requests: f64,
    /// Processor time in microseconds.
    pub cpu: f64,
}

/// The memory of the fullest server of a group.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Allocated, in bytes.
    pub bytes: f64,
    /// The number of keys.
    pub keys: f64,
}

/// Opens a connection of the `redis` crate to each server.
///
/// # Errors
/// If a server does not answer.
pub(crate) async fn connect(urls: &[String]) -> Result<Vec<MultiplexedConnection>> {
    try_join_all(urls.iter().map(async |url| {
        let client = redis::Client::open(url.as_str())?;
        Ok(client.get_multiplexed_async_connection().await?)
    }))
    .await
}

impl Testbed {
    /// A testbed with servers of this program. `None`: the program that the tests discover.
    ///
    /// # Errors
    /// If there is no program, or it does not start.
    pub async fn of(program: Option<PathBuf>, pinned: bool) -> Result<Self> {
        let source = program.map_or_else(Source::discover, |path| Ok(Source::Binary(path)))?;
        let group = Group::start(&source, 1, pinned).await?;
        let version = group.servers()?[0].version().context("a server of no version")?.clone();
        Ok(Self { source, version, groups: BTreeMap::from([(1, Arc::new(group))]), pinned })
    }

    /// A group of `nodes` servers; the servers are admitted.
    ///
    /// # Errors
    /// If the servers cannot be started.
    pub async fn group(&mut self, nodes: usize) -> Result<Arc<Group>> {
        if !self.groups.contains_key(&nodes) {
            self.groups.insert(nodes, Arc::new(self.fresh(nodes).await?));
        }
        Ok(Arc::clone(&self.groups[&nodes]))
    }

    /// Starts empty servers that no other workload uses.
    ///
    /// # Errors
    /// If the servers cannot be started.
    pub async fn fresh(&self, nodes: usize) -> Result<Group> {
        Group::start(&self.source, nodes, self.pinned).await
    }

    /// Starts an empty cluster of etcd with so many members. etcd runs with its defaults: a majority
    /// synchronises each write to disk before it is answered.
    ///
    /// # Errors
    /// If there is no etcd on this machine, or it does not start.
    pub fn etcd(&self, members: usize) -> Result<Group> {
        let program = EtcdProgram::discover()?;
        let start = || Etcd::start(&program, members, &std::env::temp_dir());
        // A member has many threads, which inherit the processor of the one that starts it.
        let started = if self.pinned { cpu::pinned(Core::Servers, start) } else { start() };
        Ok(Group::of_etcd(started?))
    }

    /// Pins this process, and the processes that it starts from now on, to this processor. Servers
    /// are not affected.
    pub fn clients_on(&self, core: Core) {
        if self.pinned {
            cpu::pin(None, core);
        }
    }

    /// The program and the short version of the servers: `redis 7.0`.
    #[must_use]
    pub fn name(&self) -> String {
        let digits = self.version.number.split('.').take(2).collect::<Vec<_>>();
        format!("{} {}", self.version.product, digits.join("."))
    }

    /// The program and the full version of the servers.
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
            Locker::quorum(servers.urls())?.admit_nodes().await?;
        }
        let group = Self::of(&servers.urls()).await?;
        Ok(Self { servers: Some(servers), ..group })
    }

    /// A group of servers that another process runs.
    ///
    /// # Errors
    /// If the servers do not answer.
    pub async fn of(urls: &[String]) -> Result<Self> {
        let watch = connect(urls).await?;
        Ok(Self { servers: None, etcd: None, urls: urls.to_vec(), watch })
    }

    fn of_etcd(etcd: Etcd) -> Self {
        let urls = (0..etcd.count()).map(|member| format!("http://{}", etcd.addr(member)));
        let urls = urls.collect();
        Self { servers: None, etcd: Some(etcd), urls, watch: Vec::new() }
    }

    /// A way to each server that takes `delay` in each direction, and its URL with the server's
    /// label, by which a quorum knows the server. Its threads run on the processor to which the
    /// caller is pinned.
    ///
    /// # Errors
    /// If another process runs the servers.
    pub fn far(&self, delay: Duration) -> Result<Vec<(Proxy, String)>> {
        let far = |server: &Server| {
            let address = server.addr()?;
            let way = Proxy::delayed(address, delay);
            let url = format!("{}?label={address}/0", way.url());
            Some((way, url))
        };
        self.servers()?.iter().map(far).collect::<Option<_>>().context("a server of no address")
    }

    /// The URLs of all servers.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The servers of this process, for faults.
    ///
    /// # Errors
    /// If another process runs them.
    pub fn servers(&self) -> Result<&Servers> {
        self.servers.as_ref().context("another process runs the servers")
    }

    /// The work of all servers so far. Nobody counts the reads of etcd.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn usage(&self) -> Result<Usage> {
        let of = |pid: Option<u32>| pid.and_then(cpu::used).map_or(f64::NAN, micros);
        if let Some(etcd) = &self.etcd {
            let cpu = (0..etcd.count()).map(|member| of(etcd.pid(member))).sum();
            return Ok(Usage { requests: f64::NAN, cpu });
        }
        let cpu = self.servers.iter().flatten().map(|server| of(server.pid())).sum();
        let requests = self.info("stats", "total_reads_processed").await?.iter().sum();
        Ok(Usage { requests, cpu })
    }

    /// The memory of the fullest server.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn memory(&self) -> Result<Memory> {
        let bytes = self.info("memory", "used_memory").await?;
        let keys = self.ask(redis::cmd("DBSIZE")).await?;
        let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
        Ok(Memory { bytes: most(bytes), keys: most(keys) })
    }

    /// The number of clients of all servers, without this group's own connections.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn clients(&self) -> Result<f64> {
        let clients = self.info("clients", "connected_clients").await?;
        Ok(clients.iter().sum::<f64>() - self.watch.len() as f64)
    }

    /// The median round trip to all servers at once, in microseconds. Of etcd none is measured.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn round_trip(&self) -> Result<f64> {
        if self.etcd.is_some() {
            return Ok(f64::NAN);
        }
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

    /// A number from `INFO` of each server.
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

/// The clock of all measurements. All processes of the machine share it.
#[must_use]
pub fn now() -> Instant {
    Clock::system().now()
}

/// A duration in microseconds.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use quorumlock_testbed::skip;

    use super::*;
    use crate::subject::{Hold as _, Kind, Subject, Work};

    /// A server with an admission record grants nothing to a program without strict admission.
    #[tokio::test]
    async fn no_subject_of_ours_bars_another() {
        let source = match Source::discover() {
            Ok(source) => source,
            Err(none) => return skip("QUORUMLOCK_REQUIRE_SERVER", &none.to_string()),
        };
        for (nodes, first) in [(1, Kind::Proven), (3, Kind::Default)] {
            let group = Group::start(&source, nodes, false).await.expect("they start");
            for kind in [first, Kind::Default, Kind::NoAdmission, Kind::Like, Kind::NoTokens, first]
            {
                let connected = kind.connect(&group.urls).await.expect("they answer");
                let Subject::Ours(ours) = connected else { panic!("{kind:?} is not ours") };
                let held = ours.hold("x", Work(None)).await;
                assert!(held.is_ok(), "{kind:?} on {nodes}: {held:?}");
            }
        }
    }
}
