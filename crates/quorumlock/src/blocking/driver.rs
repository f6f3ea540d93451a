use std::fmt;
use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::{ConfigError, Error};

/// A runtime of one thread that drives the connections.
pub(super) struct Driver {
    /// `None` only while the driver is dropped.
    runtime: Option<Runtime>,
}

impl Driver {
    pub(super) fn start() -> Result<Self, ConfigError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("quorumlock-blocking")
            .enable_all()
            .build()
            .map_err(|e| ConfigError::System { what: "a thread", why: e.to_string() })?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs `work` on the driver's thread. The caller's thread may be any, also one of another
    /// runtime.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let (done, out) = std::sync::mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().ok_or(Error::Closed)?;
        runtime.spawn(async move {
            // Fails only if the caller's thread is gone: then nobody waits for the result.
            let _ = done.send(work.await);
        });
        out.recv().map_err(|_| Error::Closed)
    }
}

impl Drop for Driver {
    /// Does not wait for the runtime, so that a drop inside an async runtime neither blocks nor
    /// panics.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
