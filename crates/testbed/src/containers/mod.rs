//! Redis servers in containers, which can be disconnected from the network, paused and killed.
//!
//! Needs Linux, a container engine and the image `local/quorumlock-redis:test`, which
//! `scripts/build-test-image` builds, or the image that `QUORUMLOCK_TEST_IMAGE` names. Nothing is
//! downloaded.
//!
//! Containers and their network are removed when the values are dropped, also during a panic. If
//! the process is killed, they stay, with the label `org.testcontainers.managed-by=testcontainers`.
//! Dropping waits for the engine, so it must happen inside a multi-threaded Tokio runtime.

mod error;
mod network;
mod node;
mod role;

pub use self::error::ContainerError;
use self::error::because;
use std::error::Error;
use std::ops::{Index, Range};
use std::slice;

use futures::future::join_all;
use testcontainers::bollard::Docker;
use testcontainers::core::client::docker_client_instance;

use self::network::Network;
pub use self::node::Container;
use self::role::Role;
use crate::skip;

const DEFAULT_IMAGE: &str = "local/quorumlock-redis:test";

/// Several servers in containers on a network of their own.
#[derive(Debug)]
pub struct Containers {
    /// Before `network`, which cannot be removed while containers are attached.
    nodes: Vec<Container>,
    sentinels: Vec<Container>,
    network: Network,
}

impl Containers {
    /// Whether an engine answers and has the image.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub async fn available() -> Result<(), String> {
        let no_engine = |error: &dyn Error| format!("no container engine answers ({error})");
        let docker = docker_client_instance().await.map_err(|error| no_engine(&error))?;
        docker.version().await.map_err(|error| no_engine(&error))?;
        let image = image();
        let found = docker.inspect_image(&image).await;
        found.map(drop).map_err(|_| format!("no image {image} (run scripts/build-test-image)"))
    }

    /// Starts `count` servers without data and waits until all answer.
    ///
    /// # Errors
    /// If the engine refuses, the image is missing, or a server does not answer within 20 seconds.
    ///
    /// # Cancel safety
    /// Not cancel-safe: containers that are being created stay behind.
    pub async fn start(count: usize) -> Result<Self, ContainerError> {
        Self::start_as(count, Role::Server).await
    }

    async fn start_as(count: usize, role: Role) -> Result<Self, ContainerError> {
        let docker = docker_client_instance().await.map_err(because("no container engine"))?;
        let network = Network::create(&docker).await?;
        let nodes = start_all(&docker, &network, 0..count, role).await?;
        Ok(Self { nodes, sentinels: Vec::new(), network })
    }

    /// Starts `count` sentinels, which monitor nothing yet, and waits until all answer.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    pub async fn start_sentinels(&mut self, count: usize) -> Result<(), ContainerError> {
        let docker = docker_client_instance().await.map_err(because("no container engine"))?;
        let indices = self.nodes.len()..self.nodes.len() + count;
        self.sentinels = start_all(&docker, &self.network, indices, Role::Sentinel).await?;
        Ok(())
    }

    /// The sentinels, in order.
    #[must_use]
    pub fn sentinels(&self) -> &[Container] {
        &self.sentinels
    }

    /// The name of the servers' network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network.name
    }

    /// The [`Container::url`] of each server, in order.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Container::url).collect()
    }

    /// The [`Container::ip_url`] of each server, in order.
    #[must_use]
    pub fn ip_urls(&self) -> Vec<String> {
        self.iter().map(Container::ip_url).collect()
    }

    /// All servers, in order.
    pub fn iter(&self) -> slice::Iter<'_, Container> {
        self.nodes.iter()
    }

    /// The number of servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no servers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl Index<usize> for Containers {
    type Output = Container;

    fn index(&self, index: usize) -> &Container {
        &self.nodes[index]
    }
}

impl<'a> IntoIterator for &'a Containers {
    type Item = &'a Container;
    type IntoIter = slice::Iter<'a, Container>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Containers for a test. `None` if there is no engine or no image: stderr then says that the test
/// was skipped, and the test should return.
///
/// # Panics
/// If something is missing and `QUORUMLOCK_REQUIRE_CONTAINERS=1`, as in CI where an engine answers;
/// or if a container does not start.
pub async fn for_test(count: usize) -> Option<Containers> {
    start_for_test(count, Role::Server).await
}

/// As [`for_test`]: members of a Redis Cluster, which know each other not yet and serve no slot. They
/// take a member that is silent for two seconds for failed.
///
/// # Panics
/// As [`for_test`].
pub async fn members_for_test(count: usize) -> Option<Containers> {
    start_for_test(count, Role::Member).await
}

async fn start_for_test(count: usize, role: Role) -> Option<Containers> {
    if let Err(why) = Containers::available().await {
        skip("QUORUMLOCK_REQUIRE_CONTAINERS", &why);
        return None;
    }
    match Containers::start_as(count, role).await {
        Ok(containers) => Some(containers),
        Err(error) => panic!("{error}"),
    }
}

/// Starts containers at these addresses of the network.
async fn start_all(
    docker: &Docker,
    network: &Network,
    indices: Range<usize>,
    role: Role,
) -> Result<Vec<Container>, ContainerError> {
    let start = |index| Container::start(docker, network, index, role);
    // All are awaited even if one fails, so that every created container is known and can be removed.
    let started = join_all(indices.map(start)).await;
    started.into_iter().collect()
}

fn image() -> String {
    let named = std::env::var("QUORUMLOCK_TEST_IMAGE").ok().filter(|image| !image.is_empty());
    named.unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}
