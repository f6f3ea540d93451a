//! Which servers stand behind the URLs, and how they stand to each other.

use std::time::Duration;

use quorumlock::{Error, Layout, NoMajority, NodeReport};
use quorumlock_command::Failure;
use quorumlock_protocol::Node as _;
use quorumlock_redis::{redis_cluster, redis_master};
use quorumlock_watchdog::Clock;

use crate::options::Options;

/// The servers that a locker on the nodes would use.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) urls: Vec<String>,
    pub(crate) topology: Topology,
}

/// What the nodes are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One node, or several independent ones; under strict admission or not.
    Quorum { strict: bool },
    /// A master and its replicas; whether the master must prove its memory.
    Replicated { strict: bool },
    /// The masters of a Redis Cluster.
    Cluster,
}

impl Topology {
    /// How many of `nodes` must answer for a lock.
    pub(crate) fn needed(self, nodes: usize) -> usize {
        match self {
            Self::Replicated { .. } => 1,
            // Each has the vote on the names of its slots.
            Self::Cluster => nodes,
            Self::Quorum { .. } => majority(nodes),
        }
    }

    /// Whether a node must prove its memory before it votes.
    pub(crate) fn is_strict(self) -> bool {
        matches!(self, Self::Quorum { strict: true } | Self::Replicated { strict: true })
    }
}

/// How many nodes must grant a lock.
pub(crate) fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

impl Servers {
    /// The servers at the URLs that were given. If the one URL is that of sentinels, or the URLs are of
    /// members of a Redis Cluster, asks those for the servers.
    pub(crate) async fn find<const LOCKS: bool>(
        nodes: &Options<LOCKS>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let given = nodes.servers()?;
        let discovered = discovered(nodes, timeout).await?;
        let replicated = given.is_replicated() || discovered.is_some();
        let urls = discovered.unwrap_or_else(|| given.urls().to_vec());
        let topology = match replicated {
            _ if given.is_cluster() => Topology::Cluster,
            true => Topology::Replicated { strict: nodes.strict_with(1) },
            false => Topology::Quorum { strict: nodes.strict_with(urls.len()) },
        };
        Ok(Self { urls, topology })
    }
}

async fn discovered<const LOCKS: bool>(
    nodes: &Options<LOCKS>,
    timeout: Duration,
) -> Result<Option<Vec<String>>, Failure> {
    let given = nodes.servers()?;
    let urls = given.urls();
    if urls.len() > 1 && !given.is_cluster() {
        return Ok(None);
    }
    let settings = nodes.patient(timeout).settings();
    let clock = Clock::system();
    let (label, found) = match given.is_cluster() {
        true => {
            let node = redis_cluster(urls, Layout::Redisson, &settings, &clock);
            let node = node.map_err(Error::from)?;
            (node.label().to_owned(), node.discovered_urls().await)
        }
        false => {
            let node = redis_master(urls, (Layout::Redisson, None), &settings, &clock);
            let node = node.map_err(Error::from)?;
            (node.label().to_owned(), node.discovered_urls().await)
        }
    };
    found.map_err(|problem| {
        let report = NodeReport::new(label, problem);
        Error::from(NoMajority::new(None, (1, 1), 0, vec![report])).into()
    })
}
