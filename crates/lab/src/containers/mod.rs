//! Redis servers in containers, which can be cut off the network as well as paused and killed.
//!
//! Needs Linux, a container engine and the image `local/quorumlock-redis:test`, which
//! `scripts/build-test-image` makes, or the one that `QUORUMLOCK_TEST_IMAGE` names; nothing is
//! fetched.
//!
//! Containers and their network are removed when the values are dropped, in a panic too. Only a
//! process that is killed leaves them behind, labelled
//! `org.testcontainers.managed-by=testcontainers`. Dropping waits for the engine, so this must
//! happen inside a multi-threaded Tokio runtime.

mod network;
mod node;

use std::error::Error;
use std::ops::Index;
use std::slice;

use futures::future::join_all;
use testcontainers::core::client::docker_client_instance;

use self::network::Network;
pub use self::node::Container;
use crate::skip::skip;

const DEFAULT_IMAGE: &str = "local/quorumlock-redis:test";

/// Several servers in containers on one network of their own.
#[derive(Debug)]
pub struct Containers {
    /// Before the network, which cannot be removed while they are on it.
    nodes: Vec<Container>,
    network: Network,
}

impl Containers {
    /// Whether an engine answers and has the image; if not, one line that says what is missing.
    ///
    /// # Errors
    /// The line.
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
    /// None: containers that are just being created stay behind.
    pub async fn start(count: usize) -> Result<Self, ContainerError> {
        let docker = docker_client_instance().await.map_err(because("no container engine"))?;
        let network = Network::create(&docker).await?;
        let start = |index| Container::start(&docker, &network, index);
        // All are awaited even if one fails: what has been created must be known to be removed.
        let nodes = join_all((0..count).map(start)).await;
        let nodes = nodes.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { nodes, network })
    }

    /// The name of their network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network.name
    }

    /// [`Container::url`] of all, in order.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Container::url).collect()
    }

    /// [`Container::ip_url`] of all, in order.
    #[must_use]
    pub fn ip_urls(&self) -> Vec<String> {
        self.iter().map(Container::ip_url).collect()
    }

    /// All servers, in order.
    pub fn iter(&self) -> slice::Iter<'_, Container> {
        self.nodes.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
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

/// Containers for a test; `None` if there is no engine or no image: the test then returns, and
/// stderr says that it was skipped.
///
/// # Panics
/// If something is missing and `QUORUMLOCK_REQUIRE_CONTAINERS=1`, as CI sets it where an engine
/// answers; or if a container does not start.
pub async fn for_test(count: usize) -> Option<Containers> {
    if let Err(why) = Containers::available().await {
        skip("QUORUMLOCK_REQUIRE_CONTAINERS", &why);
        return None;
    }
    match Containers::start(count).await {
        Ok(containers) => Some(containers),
        Err(error) => panic!("{error}"),
    }
}

/// The container engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct ContainerError {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

/// For `map_err`.
fn because<E: Into<Box<dyn Error + Send + Sync>>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> ContainerError {
    |source| ContainerError { what: what.into(), source: source.into() }
}

fn image() -> String {
    let named = std::env::var("QUORUMLOCK_TEST_IMAGE").ok().filter(|image| !image.is_empty());
    named.unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}
