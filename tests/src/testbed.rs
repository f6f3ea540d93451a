use std::path::{Path, PathBuf};
use std::time::Duration;

use quorumlock::{Admission, Builder, Locker, Wire};
use quorumlock_testbed::servers::{self, Server, ServerOptions, Servers};

use crate::builder::patient_builder;
use crate::worker::{Holder, Target};
use crate::{DeadNode, Plain, eventually};

/// The nodes of a testbed, and which of them do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One node.
    Single,
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
            Self::Single => 1,
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
    wire: Wire,
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
    pub fn start(topology: Topology, wire: Wire, worker: impl Into<PathBuf>) -> Option<Self> {
        let servers = servers::for_test(topology.servers(), &ServerOptions::default())?;
        let dead = (topology == Topology::QuorumOf5TwoDown).then(DeadNode::new);
        let bed = Self { topology, wire, worker: worker.into(), servers, dead };
        if topology == Topology::StrictQuorumOf3 {
            bed.admit_nodes();
        }
        if topology == Topology::QuorumOf5TwoDown {
            bed.servers[HUNG].pause().expect("ours");
        }
        Some(bed)
    }

    /// Admits the new servers, as an operator does.
    fn admit_nodes(&self) {
        let locker = self.locker();
        // On a separate thread: the caller's thread may be in a runtime already.
        let vouching = std::thread::spawn(move || in_a_runtime(locker.admit_nodes()));
        vouching.join().expect("no panic").expect("all nodes are up");
    }

    /// The builder for lockers of this testbed.
    pub fn builder(&self) -> Builder {
        patient_builder(self.wire)
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
            Topology::Single => builder.single(&urls[0]),
            Topology::StrictQuorumOf3 => builder.quorum(&urls),
            _ => builder.admission(Admission::Redlock).quorum(&urls),
        };
        locker.expect("a good configuration")
    }

    /// A fresh blocking locker.
    ///
    /// # Panics
    /// If the settings are wrong.
    #[must_use]
    pub fn blocking(&self) -> quorumlock::blocking::Locker {
        quorumlock::blocking::Locker::new(self.locker()).expect("a thread")
    }

    /// The layout that lockers of this testbed use.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
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

    /// The arguments of another process.
    #[must_use]
    pub fn target(&self, name: &str, lease: Duration) -> Target {
        let strict = self.topology == Topology::StrictQuorumOf3;
        Target { wire: self.wire, strict, name: name.to_owned(), lease, urls: self.urls() }
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
#[must_use]
pub fn waiters(name: &str) -> String {
    format!("quorumlock:waiters:{{{name}}}")
}

/// Runs a future to its end on a thread that is in no runtime.
pub(crate) fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
