//! The servers of a run, and the ways of its clients to them.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::control::{address_of, blocking, send};
use super::replication::Replication;
use super::{Driver, TrialError, operator};
use crate::mode::{Engine, Mode};
use crate::record::NodeFacts;
use crate::scenario::{ClientPlan, Fault, Locking, Plan, ServerPlan, Until};
#[cfg(feature = "containers")]
use quorumlock_testbed::containers::Containers;
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{
    Etcd, EtcdProgram, Faketime, Server, ServerOptions, Servers, Source, ask, field, memory_dir,
};

/// The servers and ways of a run. Dropping it ends all of them.
#[derive(Debug)]
pub(super) struct Deployment {
    pub(super) servers: Arc<Servers>,
    /// The containers in which the servers run, with that driver.
    #[cfg(feature = "containers")]
    containers: Option<Containers>,
    /// The members of a cluster of etcd, in place of the servers.
    etcd: Option<Arc<Etcd>>,
    mode: Mode,
    plan: ServerPlan,
    /// By client, and by node number as the client knows it.
    ways: BTreeMap<(String, usize), Proxy>,
    /// Second addresses of servers.
    aliases: Vec<Proxy>,
    /// The ways to the resource of clients whose writes can be delayed.
    writes: BTreeMap<String, Proxy>,
    pub(super) replication: Replication,
}

/// In pieces of 100 kB: more than the memory of any server that must evict.
const MAX_BALLAST: usize = 1_000;

impl Deployment {
    pub(super) async fn start(driver: Driver, mode: Mode, plan: &Plan) -> Result<Self, TrialError> {
        #[cfg(feature = "containers")]
        if driver == Driver::Container {
            return Self::start_containers(mode, plan).await;
        }
        debug_assert_eq!(driver, Driver::Process, "others are refused, or need no servers");
        if mode == Mode::E {
            return Self::start_etcd(plan).await;
        }
        let count = plan.servers.count();
        let mut args = plan.servers.args.clone();
        args.extend(Replication::args(mode.engine(), plan));
        let cluster = mode.engine() == Engine::Cluster;
        let appendonly = plan.servers.appendonly;
        let faketime = plan.servers.clock_gains_ppm.map(Faketime::discover).transpose()?;
        let options =
            ServerOptions { args, appendonly, faketime, cluster, ..ServerOptions::default() };
        let servers = blocking(move || {
            let source = match &options.faketime {
                Some(_) => Faketime::source()?,
                None => Source::discover()?,
            };
            Servers::start_with(&source, count, &options).map_err(TrialError::from)
        })
        .await?;
        let servers = Arc::new(servers);
        let replication = Replication::start(Arc::clone(&servers), mode.engine(), plan).await?;
        let deployment = Self {
            servers,
            #[cfg(feature = "containers")]
            containers: None,
            etcd: None,
            mode,
            plan: plan.servers.clone(),
            ways: BTreeMap::new(),
            aliases: Vec::new(),
            writes: BTreeMap::new(),
            replication,
        };
        if mode.strict() {
            deployment.admit_nodes(&plan.locking).await?;
        }
        Ok(deployment)
    }

    async fn start_etcd(plan: &Plan) -> Result<Self, TrialError> {
        let program = EtcdProgram::discover();
        let program = program.map_err(|none| TrialError::Missing(none.to_string()))?;
        let count = plan.servers.count();
        let etcd = blocking(move || Ok(Etcd::start(&program, count, &memory_dir())?)).await?;
        let none = Servers::start_with(&Source::Urls(Vec::new()), 0, &ServerOptions::default())?;
        let servers = Arc::new(none);
        let replication = Replication::start(Arc::clone(&servers), Engine::Addresses, plan).await?;
        Ok(Self {
            servers,
            #[cfg(feature = "containers")]
            containers: None,
            etcd: Some(Arc::new(etcd)),
            mode: Mode::E,
            plan: plan.servers.clone(),
            ways: BTreeMap::new(),
            aliases: Vec::new(),
            writes: BTreeMap::new(),
            replication,
        })
    }

    #[cfg(feature = "containers")]
    async fn start_containers(mode: Mode, plan: &Plan) -> Result<Self, TrialError> {
        Containers::available().await.map_err(TrialError::Missing)?;
        let count = plan.servers.count();
        let containers = Containers::start(count).await.map_err(io::Error::other)?;
        // By the containers' own addresses: a disconnected server then looks partitioned, not
        // crashed.
        let source = Source::Urls(containers.ip_urls());
        let given = move || Ok(Servers::start_with(&source, count, &ServerOptions::default())?);
        let servers = Arc::new(blocking(given).await?);
        let replication = Replication::start(Arc::clone(&servers), mode.engine(), plan).await?;
        let deployment = Self {
            servers,
            containers: Some(containers),
            etcd: None,
            mode,
            plan: plan.servers.clone(),
            ways: BTreeMap::new(),
            aliases: Vec::new(),
            writes: BTreeMap::new(),
            replication,
        };
        if mode.strict() {
            deployment.admit_nodes(&plan.locking).await?;
        }
        Ok(deployment)
    }

    /// Injects a fault into a container. False if the servers are not containers, or the fault does
    /// not affect one.
    pub(super) async fn inject_into_container(&self, fault: &Fault) -> Result<bool, TrialError> {
        #[cfg(feature = "containers")]
        if let (Some(containers), Some(node)) = (&self.containers, fault.node()) {
            let container = &containers[node];
            match fault {
                Fault::Kill(_) => container.kill().await,
                Fault::Stop(_) => container.pause().await,
                Fault::Cont(_) => container.unpause().await,
                Fault::Disconnect(_) => container.disconnect().await,
                Fault::Reconnect(_) => container.reconnect().await,
                Fault::Restart(_) | Fault::RestartEmpty(_) => {
                    // A dead container cannot be killed; it is started in either case.
                    let _ = container.kill().await;
                    container.start_again().await
                }
                _ => return Ok(false),
            }
            .map_err(io::Error::other)?;
            return Ok(true);
        }
        let _ = fault;
        Ok(false)
    }

    /// Injects a fault into a member of etcd. False if the servers are none, or the fault does not
    /// affect one.
    pub(super) async fn inject_into_etcd(&self, fault: &Fault) -> Result<bool, TrialError> {
        let Some(etcd) = self.etcd.clone() else { return Ok(false) };
        let fault = fault.clone();
        blocking(move || {
            match fault {
                Fault::Kill(member) => etcd.kill(member)?,
                Fault::Stop(member) => etcd.pause(member)?,
                Fault::Cont(member) => etcd.resume(member)?,
                Fault::Restart(member) => etcd.restart(member)?,
                // A member that the others know does not begin anew: it ends, and stays dead.
                Fault::RestartEmpty(member) => drop(etcd.restart_empty(member)?),
                _ => return Ok(false),
            }
            Ok(true)
        })
        .await
    }

    /// The URLs that a client is configured with.
    pub(super) fn urls(&mut self, client: &ClientPlan) -> Result<Vec<String>, TrialError> {
        let mut urls = Vec::new();
        let all = self.plan.known().collect::<Vec<_>>();
        let configured = client.configured_with.as_ref().unwrap_or(&all);
        for (place, &node) in configured.iter().enumerate() {
            if configured[..place].contains(&node) {
                let alias = Proxy::to(self.address(node)?);
                urls.push(self.url_at(alias.addr()));
                self.aliases.push(alias);
                continue;
            }
            let reached = client.reaches.as_ref().is_none_or(|reaches| reaches.contains(&node));
            if reached && !client.ways {
                urls.push(self.url(node, client.database));
                continue;
            }
            let way = Proxy::to(self.address(node)?);
            if !reached {
                way.cut();
            }
            urls.push(self.named(&self.url_at(way.addr()), node, client.database));
            self.ways.insert((client.id.clone(), node), way);
        }
        Ok(urls)
    }

    /// The direct URL of a server.
    fn url(&self, node: usize, database: u64) -> String {
        let url = match &self.etcd {
            Some(etcd) => self.url_at(etcd.addr(node)),
            None => self.server(node).url().to_owned(),
        };
        self.named(&url, node, database)
    }

    fn url_at(&self, address: SocketAddr) -> String {
        let scheme = if self.etcd.is_some() { "http" } else { "redis" };
        format!("{scheme}://{address}")
    }

    /// Clients reach one server by different addresses, and call it by one label.
    fn named(&self, url: &str, node: usize, database: u64) -> String {
        let database = if database > 0 { format!("/{database}") } else { String::new() };
        let label = if self.mode.strict() { format!("?label=n{node}") } else { String::new() };
        format!("{url}{database}{label}")
    }

    pub(super) fn way(&self, client: &str, node: usize) -> io::Result<&Proxy> {
        let missing = || io::Error::other(format!("client {client} has no way to node {node}"));
        self.ways.get(&(client.to_owned(), node)).ok_or_else(missing)
    }

    /// The address at which a client reaches the resource.
    pub(super) fn access(
        &mut self,
        client: &ClientPlan,
        plan: &Plan,
        at: SocketAddr,
    ) -> SocketAddr {
        if !plan.delays_writes(&client.id) {
            return at;
        }
        self.writes.entry(client.id.clone()).or_insert_with(|| Proxy::to(at)).addr()
    }

    pub(super) fn writes(&self, client: &str) -> io::Result<&Proxy> {
        let missing = || io::Error::other(format!("writes of client {client} have no way"));
        self.writes.get(client).ok_or_else(missing)
    }

    /// Whether a server has the lock's key.
    pub(super) async fn has(&self, node: usize, name: &str) -> bool {
        matches!(self.ask(node, &["EXISTS", name]).await.as_deref(), Ok("1"))
    }

    pub(super) fn address(&self, node: usize) -> io::Result<SocketAddr> {
        match &self.etcd {
            Some(etcd) => Ok(etcd.addr(node)),
            None => address_of(self.server(node)),
        }
    }

    /// A server, or a sentinel: those are numbered after the servers.
    fn server(&self, node: usize) -> &Server {
        match &self.replication.sentinels {
            Some(sentinels) if node >= self.servers.len() => &sentinels[node - self.servers.len()],
            _ => &self.servers[node],
        }
    }

    /// Sends a command to a server.
    pub(super) async fn ask(&self, node: usize, words: &[&str]) -> io::Result<String> {
        send(self.address(node)?, words).await
    }

    pub(super) async fn facts(&self) -> Vec<NodeFacts> {
        let mut facts = Vec::new();
        for member in 0..self.etcd.as_ref().map_or(0, |etcd| etcd.count()) {
            facts.push(self.member_facts(member).await);
        }
        for (node, server) in self.servers.iter().enumerate() {
            let info = self.ask(node, &["INFO", "server"]).await.unwrap_or_default();
            let ServerPlan { voters, replicas, .. } = self.plan;
            let role = match node {
                _ if node >= voters + replicas => "spare",
                _ if node >= voters => "replica",
                0 if replicas > 0 => "master",
                _ => "voter",
            };
            facts.push(NodeFacts {
                version: server.version().map(ToString::to_string).unwrap_or_default(),
                run_id: field(&info, "run_id").unwrap_or_default().to_owned(),
                role: role.to_owned(),
            });
        }
        facts
    }

    async fn member_facts(&self, member: usize) -> NodeFacts {
        let said = self.page(member, "/version").await.unwrap_or_default();
        let said = serde_json::from_str::<serde_json::Value>(&said).unwrap_or_default();
        NodeFacts {
            version: format!("etcd {}", said["etcdserver"].as_str().unwrap_or_default()),
            run_id: String::new(),
            role: "voter".to_owned(),
        }
    }

    /// What a member of etcd says at this path.
    async fn page(&self, member: usize, path: &'static str) -> Option<String> {
        let etcd = self.etcd.clone()?;
        tokio::task::spawn_blocking(move || etcd.page(member, path)).await.ok()?
    }

    /// For each server, the number of lock requests since its process started.
    pub(super) async fn requests(&self) -> Vec<Option<Requests>> {
        let mut requests = Vec::new();
        for member in 0..self.etcd.as_ref().map_or(0, |etcd| etcd.count()) {
            let metrics = self.page(member, "/metrics").await;
            requests.push(metrics.and_then(|metrics| Requests::from_metrics(&metrics)));
        }
        for (node, server) in self.servers.iter().enumerate() {
            if !server.is_running() {
                requests.push(None);
                continue;
            }
            let info = self.ask(node, &["INFO", "everything"]).await;
            requests.push(info.ok().and_then(|info| Requests::from_info(&info)));
        }
        requests
    }

    /// Fills the server with keys without expiry, which `volatile-lru` does not evict, until the
    /// lock's key is evicted. Then deletes them.
    pub(super) async fn evict(&self, node: usize, name: &str) -> io::Result<()> {
        let ballast = "x".repeat(100_000);
        let key = |piece: usize| format!("ballast:{piece}");
        let mut pieces = 0;
        while self.ask(node, &["EXISTS", name]).await? == "1" {
            if pieces == MAX_BALLAST {
                return Err(io::Error::other(format!("node {node} does not evict {name}")));
            }
            // The last piece may not fit in any case.
            let _ = self.ask(node, &["SET", &key(pieces), &ballast]).await;
            pieces += 1;
        }
        for piece in 0..pieces {
            self.ask(node, &["DEL", &key(piece)]).await?;
        }
        Ok(())
    }

    /// The script measures its own processor time, because the server's clock does not advance
    /// during a script.
    pub(super) fn keep_busy(&self, node: usize, ms: u64) -> io::Result<()> {
        let script = "local till = os.clock() + ARGV[1] / 1000 while os.clock() < till do end";
        let words = ["EVAL", script, "0", &ms.to_string()].map(str::to_owned);
        let address = self.address(node)?;
        // The script may be killed during the run, so its result does not matter.
        tokio::task::spawn_blocking(move || drop(ask(address, &words)));
        Ok(())
    }

    pub(super) async fn force_unlock(&self, locking: &Locking) -> Result<(), TrialError> {
        Ok(operator::force_unlock(self.mode, self.known_urls(), locking).await?)
    }

    /// An operator vouches for all nodes of this client.
    pub(super) async fn init(
        &self,
        client: &ClientPlan,
        locking: &Locking,
    ) -> Result<(), quorumlock::Error> {
        let all = || self.plan.known().collect();
        let nodes = client.configured_with.clone().unwrap_or_else(all);
        let urls = nodes.into_iter().map(|node| self.url(node, client.database)).collect();
        operator::admit_nodes(self.mode, urls, locking).await
    }

    pub(super) async fn change_members(
        &self,
        locking: &Locking,
        (present, target): (&[usize], &[usize]),
        until: Until,
    ) -> Result<(), TrialError> {
        let urls = |nodes: &[usize]| nodes.iter().map(|node| self.url(*node, 0)).collect();
        let lists = (urls(present), urls(target));
        operator::change_members(lists, locking, until).await
    }

    /// Whether a node votes.
    pub(super) async fn is_admitted(
        &self,
        node: usize,
        locking: &Locking,
    ) -> Result<bool, TrialError> {
        Ok(operator::is_admitted(self.mode, self.known_urls(), locking, node).await?)
    }

    async fn admit_nodes(&self, locking: &Locking) -> Result<(), TrialError> {
        Ok(operator::admit_nodes(self.mode, self.known_urls(), locking).await?)
    }

    fn known_urls(&self) -> Vec<String> {
        self.plan.known().map(|node| self.url(node, 0)).collect()
    }
}

/// How many lock requests a server has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requests {
    run_id: String,
    calls: u64,
}

/// The commands that lockers send. Servers count the commands inside of scripts separately.
const SENT: [&str; 10] = [
    "delifeq",
    "eval",
    "evalsha",
    "exec",
    "fcall",
    "hdel",
    "script|load",
    "subscribe",
    "unsubscribe",
    "wait",
];

impl Requests {
    fn from_info(info: &str) -> Option<Self> {
        let calls = SENT.iter().filter_map(|command| {
            let line = field(info, &format!("cmdstat_{command}"))?;
            line.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()
        });
        Some(Self { run_id: field(info, "run_id")?.to_owned(), calls: calls.sum() })
    }

    /// Of a member of etcd: all that its clients have begun, but for watches.
    fn from_metrics(metrics: &str) -> Option<Self> {
        let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        let begun = metrics.lines().filter(|line| {
            line.starts_with("grpc_server_started_total{") && !line.contains("\"Watch\"")
        });
        let start = metrics.lines().find(|line| line.starts_with("process_start_time"))?;
        Some(Self { run_id: start.to_owned(), calls: begun.filter_map(value).sum() })
    }

    /// The requests between two readings. If the server restarted in between, those of its earlier
    /// process are unknown and not counted.
    pub(super) fn since(&self, before: Option<&Self>) -> u64 {
        match before {
            Some(before) if before.run_id == self.run_id => self.calls - before.calls,
            _ => self.calls,
        }
    }
}
