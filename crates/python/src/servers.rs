//! Servers as a value, and locks that they list.

use pyo3::prelude::*;
use quorumlock::HeldLock;

use crate::errors;
use crate::testing::MemoryServer;

/// The servers of a locker. No I/O, and no error before a locker is made.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Servers(pub(crate) quorumlock::Servers);

#[pymethods]
impl Servers {
    /// Reads the text that stands for servers in `QUORUMLOCK_NODES`.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        match text.parse() {
            Ok(servers) => Ok(Self(servers)),
            Err(error) => Err(errors::config(py, &error)?),
        }
    }

    /// One server.
    #[staticmethod]
    fn single(url: &str) -> Self {
        Self(quorumlock::Servers::single(url))
    }

    /// Independent servers, of which a majority decides.
    #[staticmethod]
    fn quorum(urls: Vec<String>) -> Self {
        Self(quorumlock::Servers::quorum(urls))
    }

    /// A master and its replicas.
    #[staticmethod]
    fn replicated(urls: Vec<String>) -> Self {
        Self(quorumlock::Servers::replicated(urls))
    }

    /// The master that sentinels name.
    #[staticmethod]
    fn sentinel(urls: Vec<String>, master: &str) -> Self {
        Self(quorumlock::Servers::sentinel(urls, master))
    }

    /// Members of a Redis Cluster.
    #[staticmethod]
    fn cluster(urls: Vec<String>) -> Self {
        Self(quorumlock::Servers::cluster(urls))
    }

    /// A server in this process, for tests.
    #[staticmethod]
    fn memory(server: &MemoryServer) -> Self {
        Self(quorumlock::Servers::memory(&server.0))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Servers {}>", self.0)
    }
}

/// A lock as the servers listed it: what `force_unlock_from` needs to free it and no later hold.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct ListedLock(pub(crate) HeldLock);

impl ListedLock {
    pub(crate) fn new(lock: HeldLock) -> Self {
        Self(lock)
    }
}
