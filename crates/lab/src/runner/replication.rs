//! How replicas follow their master, are cut off from it, and are promoted: on plain servers, behind
//! sentinels, and in a Redis Cluster.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{Server, ServerOptions, Servers, Source, field};
use quorumlock_watchdog::Clock;

use super::TrialError;
use super::control::{address_of, blocking, send, set};
use crate::mode::Engine;
use crate::scenario::{Fault, Plan, WayState};
use crate::worker::MASTER;

/// The replicas of node 0.
#[derive(Debug)]
pub(super) struct Replication {
    servers: Arc<Servers>,
    engine: Engine,
    /// Each replica's way to node 0. Empty in a cluster, whose replicas dial what members announce.
    ways: BTreeMap<usize, Proxy>,
    pub(super) sentinels: Option<Servers>,
}

/// A small server synchronises within milliseconds; sentinels ask for a role once a second.
const MAX_WAIT: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Sentinels order no failover of their own within a run: the steps of the plan do. Ten times this
/// is how long a replica may have been cut off and still be promoted.
const DOWN_AFTER_MS: &str = "10000";

impl Replication {
    /// The arguments that servers need for it.
    pub(super) fn args(engine: Engine, plan: &Plan) -> Vec<String> {
        let mut args = Vec::new();
        if plan.servers.count() > plan.servers.voters {
            // With a disk, synchronisation begins at once rather than at the master's next round.
            args.extend(["--repl-diskless-sync", "no"].map(str::to_owned));
        }
        if engine == Engine::Cluster {
            args.extend(["--cluster-allow-replica-migration", "no"].map(str::to_owned));
            for replica in 0..plan.servers.count() {
                let rights = ["on", "nopass", "+psync", "+replconf", "+ping"].map(str::to_owned);
                args.extend(["--user".to_owned(), user_of(replica)]);
                args.extend(rights);
            }
        }
        args
    }

    /// Makes replicas of the servers after the voters, without the spares, and waits for their
    /// copies.
    pub(super) async fn start(
        servers: Arc<Servers>,
        engine: Engine,
        plan: &Plan,
    ) -> Result<Self, TrialError> {
        let (voters, count) = (plan.servers.voters, plan.servers.count());
        let sentinels = match plan.servers.sentinels {
            0 => None,
            count => Some(start_sentinels(count).await?),
        };
        let mut replication = Self { servers, engine, ways: BTreeMap::new(), sentinels };
        if engine == Engine::Cluster {
            replication.ask(0, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await?;
        } else {
            for replica in voters..count {
                let way = Proxy::to(replication.address(0)?);
                replication.ways.insert(replica, way);
            }
        }
        let replicas = voters..voters + plan.servers.replicas;
        for replica in replicas.clone() {
            replication.follow(replica, 0).await?;
        }
        for replica in replicas.clone() {
            replication.in_sync(replica).await?;
        }
        if engine == Engine::Cluster {
            for node in 0..count {
                let ok = async || {
                    let info = replication.ask(node, &["CLUSTER", "INFO"]).await?;
                    Ok(info.contains("cluster_state:ok"))
                };
                wait_for(&format!("node {node} serves the slots"), ok).await?;
            }
        }
        replication.monitor(plan).await?;
        Ok(replication)
    }

    /// Lets the sentinels monitor node 0. They may promote only the node that the plan promotes.
    async fn monitor(&self, plan: &Plan) -> Result<(), TrialError> {
        let addresses = self.sentinel_addresses();
        if addresses.is_empty() {
            return Ok(());
        }
        for node in 0..plan.servers.count() {
            let promoted = |fault: &Fault| matches!(fault, Fault::Promote(one) if *one == node);
            if !plan.schedule.iter().any(|step| promoted(&step.fault)) {
                self.ask(node, &["CONFIG", "SET", "replica-priority", "0"]).await?;
            }
        }
        let port = self.address(0)?.port().to_string();
        let quorum = (addresses.len() / 2 + 1).to_string();
        for &sentinel in &addresses {
            let monitor = ["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &port, &quorum];
            send(sentinel, &monitor).await?;
            let set = ["SENTINEL", "SET", MASTER, "down-after-milliseconds", DOWN_AFTER_MS];
            send(sentinel, &set).await?;
        }
        let (replicas, sentinels) = (plan.servers.replicas, addresses.len());
        let known = format!("slaves={replicas},sentinels={sentinels}");
        for sentinel in addresses {
            let knows = async || Ok(send(sentinel, &["INFO", "sentinel"]).await?.contains(&known));
            wait_for("a sentinel knows all servers and sentinels", knows).await?;
        }
        Ok(())
    }

    /// Makes a server the replica of another server. If the master is node 0, by the replica's way,
    /// which can be cut.
    pub(super) async fn follow(&self, replica: usize, of: usize) -> Result<(), TrialError> {
        if self.engine == Engine::Cluster {
            return self.follow_in_cluster(replica, of).await;
        }
        let way = self.ways.get(&replica).filter(|_| of == 0);
        let master = way.map_or_else(|| self.address(of), |way| Ok(way.addr()))?;
        self.ask(replica, &["REPLICAOF", "127.0.0.1", &master.port().to_string()]).await?;
        Ok(())
    }

    /// A member refuses to be a replica until it knows its master and serves no slot, so this asks
    /// again until the role has changed.
    async fn follow_in_cluster(&self, replica: usize, of: usize) -> Result<(), TrialError> {
        for (setting, value) in [("masteruser", user_of(replica)), ("masterauth", "-".to_owned())] {
            self.ask(replica, &["CONFIG", "SET", setting, &value]).await?;
        }
        let id = self.ask(of, &["CLUSTER", "MYID"]).await?;
        let port = self.address(of)?.port().to_string();
        let bus_port = self.servers[of].bus_port().unwrap_or_default().to_string();
        let follows = async || {
            let info = self.ask(replica, &["INFO", "replication"]).await?;
            if field(&info, "role") == Some("slave") && field(&info, "master_port") == Some(&port) {
                return Ok(true);
            }
            let _ = self.ask(replica, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]).await;
            let _ = self.ask(replica, &["CLUSTER", "REPLICATE", &id]).await;
            Ok(false)
        };
        wait_for(&format!("node {replica} follows node {of}"), follows).await
    }

    /// Sets the state of the way from a replica to node 0.
    pub(super) async fn set_way(&self, replica: usize, state: WayState) -> Result<(), TrialError> {
        if self.engine == Engine::Cluster {
            return self.cut_in_cluster(replica, state).await;
        }
        let missing = || io::Error::other(format!("node {replica} is no replica"));
        set(self.ways.get(&replica).ok_or_else(missing)?, state).await;
        Ok(())
    }

    /// The master ends the replica's connection and refuses the next one. It also forgets the
    /// replica for a minute: a promotion is not told to it.
    async fn cut_in_cluster(&self, replica: usize, state: WayState) -> Result<(), TrialError> {
        if state != WayState::Cut {
            return Err(TrialError::Missing("replication in a cluster can only be cut".to_owned()));
        }
        let id = self.ask(replica, &["CLUSTER", "MYID"]).await?;
        self.ask(0, &["ACL", "DELUSER", &user_of(replica)]).await?;
        self.ask(0, &["CLUSTER", "FORGET", &id]).await?;
        Ok(())
    }

    /// Makes a replica the master, whether or not the old one lives.
    pub(super) async fn promote(&self, node: usize) -> Result<(), TrialError> {
        match self.engine {
            Engine::Addresses => drop(self.ask(node, &["REPLICAOF", "NO", "ONE"]).await?),
            Engine::Cluster => drop(self.ask(node, &["CLUSTER", "FAILOVER", "TAKEOVER"]).await?),
            Engine::Sentinel => self.fail_over_to(node).await?,
        }
        Ok(())
    }

    /// Orders a failover, until all sentinels name this node as the master.
    async fn fail_over_to(&self, node: usize) -> Result<(), TrialError> {
        let named = format!("address=127.0.0.1:{},", self.address(node)?.port());
        for (at, sentinel) in self.sentinel_addresses().into_iter().enumerate() {
            let promoted = async || {
                if send(sentinel, &["INFO", "sentinel"]).await?.contains(&named) {
                    return Ok(true);
                }
                if at == 0 {
                    // Refused while a failover is in progress.
                    let _ = send(sentinel, &["SENTINEL", "FAILOVER", MASTER]).await;
                }
                Ok(false)
            };
            wait_for(&format!("the sentinels promote node {node}"), promoted).await?;
        }
        Ok(())
    }

    /// Waits until the replica and node 0 have one replication offset, whichever follows the other.
    pub(super) async fn in_sync(&self, replica: usize) -> Result<(), TrialError> {
        let in_sync = async || {
            let of_master = self.ask(0, &["INFO", "replication"]).await?;
            let of_replica = self.ask(replica, &["INFO", "replication"]).await?;
            let follows = |info: &String| field(info, "master_link_status") == Some("up");
            let up = follows(&of_replica) || follows(&of_master);
            let offset = |info| field(info, "master_repl_offset").map(str::to_owned);
            Ok(up && offset(&of_master) == offset(&of_replica))
        };
        wait_for(&format!("node {replica} is in sync"), in_sync).await
    }

    fn sentinel_addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().flatten().filter_map(Server::addr).collect()
    }

    fn address(&self, node: usize) -> io::Result<SocketAddr> {
        address_of(&self.servers[node])
    }

    async fn ask(&self, node: usize, words: &[&str]) -> io::Result<String> {
        send(self.address(node)?, words).await
    }
}

/// A replica logs in to its master under a name of its own, so that the master can refuse it.
fn user_of(replica: usize) -> String {
    format!("replica{replica}")
}

async fn start_sentinels(count: usize) -> Result<Servers, TrialError> {
    blocking(move || {
        let options = ServerOptions { sentinel: true, ..ServerOptions::default() };
        Ok(Servers::start_with(&Source::discover()?, count, &options)?)
    })
    .await
}

async fn wait_for(
    what: &str,
    happened: impl AsyncFn() -> Result<bool, TrialError>,
) -> Result<(), TrialError> {
    let clock = Clock::system();
    let since = clock.now();
    while !happened().await? {
        if clock.now().since(since) > MAX_WAIT {
            let why = format!("not within {MAX_WAIT:?}: {what}");
            return Err(io::Error::other(why).into());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}
