//! A server in the process, for tests of programs that take locks.

use pyo3::prelude::*;

/// A server in this process: see `quorumlock.testing`.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct MemoryServer(pub(crate) quorumlock::testing::MemoryServer);

#[pymethods]
impl MemoryServer {
    #[new]
    fn new() -> Self {
        Self(quorumlock::testing::MemoryServer::new())
    }

    /// Loses all locks, as a server that restarts without its data.
    fn forget_locks(&self) {
        self.0.forget_locks();
    }

    /// Answers nobody from now on.
    fn stop(&self) {
        self.0.stop();
    }

    /// Answers again.
    fn start(&self) {
        self.0.start();
    }
}
