use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use quorumlock::telemetry::Mode;
use quorumlock::{Admission, Builder, Layout, Locker};
use quorumlock_testbed::servers::{self, Server, ServerOptions, Servers};

use crate::builder::patient_builder;
use crate::worker::{Ending, Holder, Target};
use crate::{DeadNode, Plain, eventually};

/// The nodes of a testbed, and which of them do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One node.
    Single,
    /// One node, which must prove its memory before it votes.
    Proven,
    /// As [`Self::Proven`], a master whose replicas may be promoted.
    ProvenMaster,
    /// A Redis Cluster of one member.
    Cluster,
    /// Three independent nodes.
    QuorumOf3,
    /// Five independent nodes.
    QuorumOf5,
    /// Three independent nodes which must prove their memory before they vote.
    StrictQuorumOf3,
    /// Five independent nodes, of which one is dead (refuses connections) and one is hung (accepts
    /// connections and never answers).
    QuorumOf5TwoDown,
}

impl Topology {
    fn servers(self) -> usize {
        match self {
            Self::Single | Self::Proven | Self::ProvenMaster | Self::Cluster => 1,
            Self::QuorumOf3 | Self::StrictQuorumOf3 => 3,
            // The dead node has no server.
            Self::QuorumOf5TwoDown => 4,
            Self::QuorumOf5 => 5,
        }
    }
}

/// The index of the hung server, and the index at which the dead node is inserted into the list.
const HUNG: usize = 2;
const DEAD: usize = 1;

/// The real servers of one promise. They are stopped when it is dropped.
#[derive(Debug)]
pub struct Testbed {
    topology: Topology,
    layout: Layout,
    worker: PathBuf,
    servers: Servers,
    dead: Option<DeadNode>,
}

impl Testbed {
    /// Starts the servers; `None` if this machine has no server program, which is printed on
    /// stderr.
    ///
    /// # Panics
    /// If there is no server program and `QUORUMLOCK_REQUIRE_SERVER=1`, or if a server does not
    /// start.
    #[must_use]
    pub fn start(topology: Topology, layout: Layout, worker: impl Into<PathBuf>) -> Option<Self> {
        let cluster = topology == Topology::Cluster;
        let options = ServerOptions { cluster, ..Default::default() };
        let servers = servers::for_test(topology.servers(), &options)?;
        let dead = (topology == Topology::QuorumOf5TwoDown).then(DeadNode::new);
        let bed = Self { topology, layout, worker: worker.into(), servers, dead };
        match topology {
            Topology::Proven | Topology::ProvenMaster | Topology::StrictQuorumOf3 => {
                bed.admit_nodes();
            }
            Topology::Cluster => bed.assign_slots(),
            _ => {}
        }
        if topology == Topology::QuorumOf5TwoDown {
            bed.servers[HUNG].pause().expect("ours");
        }
        Some(bed)
    }

    /// Admits the new servers, as an operator does.
    fn admit_nodes(&self) {
        let locker = self.locker();
        on_a_thread(async move || locker.admit_nodes().await.expect("all nodes are up"));
    }

    /// Gives all slots to the one member, and waits until it serves them.
    fn assign_slots(&self) {
        let url = self.servers[0].url().to_owned();
        on_a_thread(async move || {
            let member = Plain::to(&url).await;
            member.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
            eventually("the cluster is up", async || {
                let info: String = member.ask(&["CLUSTER", "INFO"]).await;
                info.contains("cluster_state:ok").then_some(())
            })
            .await;
        });
    }

    /// The builder for lockers of this testbed.
    pub fn builder(&self) -> Builder {
        patient_builder(self.layout)
    }

    /// A fresh locker, which shares nothing with others, as in another process.
    #[must_use]
    pub fn locker(&self) -> Locker {
        self.build(self.builder())
    }

    /// A fresh locker with settings of its own.
    ///
    /// # Panics
    /// If the settings are wrong.
    #[must_use]
    pub fn build(&self, builder: Builder) -> Locker {
        let urls = self.urls();
        let locker = match self.topology {
            Topology::Single => builder.on(quorumlock::Servers::single(&urls[0])),
            Topology::Proven => {
                builder.admission(Admission::Strict).on(quorumlock::Servers::single(&urls[0]))
            }
            Topology::ProvenMaster => {
                builder.admission(Admission::Strict).on(quorumlock::Servers::replicated(&urls))
            }
            Topology::Cluster => builder.on(quorumlock::Servers::cluster(&urls)),
            Topology::StrictQuorumOf3 => builder.on(quorumlock::Servers::quorum(&urls)),
            _ => builder.admission(Admission::Redlock).on(quorumlock::Servers::quorum(&urls)),
        };
        locker.expect("a good configuration")
    }

    /// A fresh blocking locker.
    ///
    /// # Panics
    /// If the settings are wrong.
    #[must_use]
    pub fn blocking(&self) -> quorumlock::blocking::Locker {
        quorumlock::blocking::Locker::from_async(self.locker()).expect("a thread")
    }

    /// What its nodes are.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Which servers lockers of this testbed say that they ask.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.topology {
            Topology::Single | Topology::Proven => Mode::Single,
            Topology::ProvenMaster => Mode::Replicated,
            Topology::Cluster => Mode::Cluster,
            _ => Mode::Quorum,
        }
    }

    /// The layout that lockers of this testbed use.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// A plain client of server `i`.
    pub async fn plain(&self, i: usize) -> Plain {
        Plain::to(self.servers[i].url()).await
    }

    /// Plain clients of all nodes that answer.
    pub async fn live(&self) -> Vec<Plain> {
        let mut nodes = Vec::new();
        for server in self.live_servers() {
            nodes.push(Plain::to(server.url()).await);
        }
        nodes
    }

    /// Waits until all nodes that answer have this key. A majority grants: the others may follow.
    pub async fn awaits_key(&self, key: &str) {
        for node in self.live().await {
            eventually(&format!("{key} is at {node:?}"), async || {
                node.exists(key).await.then_some(())
            })
            .await;
        }
    }

    /// Waits until no node that answers has this key.
    pub async fn awaits_no_key(&self, key: &str) {
        for node in self.live().await {
            eventually(&format!("{key} is gone from {node:?}"), async || {
                (!node.exists(key).await).then_some(())
            })
            .await;
        }
    }

    /// Waits until a waiter for this lock is queued on a node that answers.
    pub async fn awaits_waiters(&self, name: &str) {
        let key = waiters(name);
        let nodes = self.live().await;
        eventually(&format!("somebody waits for {name}"), async || {
            for node in &nodes {
                if node.exists(&key).await {
                    return Some(());
                }
            }
            None
        })
        .await;
    }

    /// Waits until so many waiters for this lock are queued on one node.
    pub async fn awaits_number_of_waiters(&self, name: &str, count: usize) {
        let (key, nodes) = (waiters(name), self.live().await);
        eventually(&format!("{count} wait for {name}"), async || {
            for node in &nodes {
                if node.ask::<usize>(&["ZCARD", &key]).await >= count {
                    return Some(());
                }
            }
            None
        })
        .await;
    }

    /// Waits until no waiter for this lock is queued on a node that answers.
    pub async fn awaits_no_waiter(&self, name: &str) {
        self.awaits_no_key(&waiters(name)).await;
    }

    /// Stops all nodes that answer: they keep their connections and their clocks run, but they send
    /// no answers.
    ///
    /// # Panics
    /// If a server cannot be stopped.
    pub fn pause_all(&self) {
        for server in self.live_servers() {
            server.pause().expect("ours");
        }
    }

    /// Resumes them. They first answer the requests that arrived meanwhile.
    ///
    /// # Panics
    /// If a server is gone.
    pub fn resume_all(&self) {
        for server in self.live_servers() {
            server.resume().expect("ours");
        }
    }

    /// Starts another process that takes the lock and holds it until told otherwise.
    pub async fn holder(&self, name: &str, lease: Duration) -> Holder {
        Holder::start(&self.worker, &self.target(name, lease)).await
    }

    /// Starts another process that takes the lock, and ends so. Returns its exit status.
    pub async fn ends(&self, name: &str, lease: Duration, ending: Ending) -> ExitStatus {
        ending.run(&self.worker, &self.target(name, lease)).await
    }

    /// The arguments of another process.
    #[must_use]
    pub fn target(&self, name: &str, lease: Duration) -> Target {
        let strict = matches!(
            self.topology,
            Topology::Proven | Topology::ProvenMaster | Topology::StrictQuorumOf3
        );
        let replicated = self.topology == Topology::ProvenMaster;
        let (cluster, name) = (self.topology == Topology::Cluster, name.to_owned());
        Target { layout: self.layout, strict, replicated, cluster, name, lease, urls: self.urls() }
    }

    /// The program that other processes run.
    #[must_use]
    pub fn worker(&self) -> &Path {
        &self.worker
    }

    /// The URLs of all nodes, including the dead one.
    fn urls(&self) -> Vec<String> {
        let mut urls = self.servers.urls();
        if let Some(dead) = &self.dead {
            urls.insert(DEAD, dead.url());
        }
        urls
    }

    fn live_servers(&self) -> impl Iterator<Item = &Server> {
        let hung = (self.topology == Topology::QuorumOf5TwoDown).then_some(HUNG);
        let servers = self.servers.iter().enumerate();
        servers.filter(move |(server, _)| Some(*server) != hung).map(|(_, server)| server)
    }
}

/// The key of the wait queue of a name.
///
/// # Panics
/// If the name is not good.
#[must_use]
pub fn waiters(name: &str) -> String {
    match name.starts_with("quorumlock:waiters:") {
        true => name.to_owned(),
        false => quorumlock_protocol::Name::new(name).expect("a good name").waiters_key(),
    }
}

/// Runs a future to its end on a thread of its own: the caller's may be in a runtime already.
fn on_a_thread(work: impl AsyncFnOnce() + Send + 'static) {
    std::thread::spawn(move || in_a_runtime(work())).join().expect("no panic");
}

/// Runs a future to its end on a thread that is in no runtime.
pub(crate) fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
