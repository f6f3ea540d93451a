use std::fmt;
use std::future::Future;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use quorumlock_watchdog::Process;
use tokio::runtime::{Builder, Runtime};

use crate::{ConfigError, Error};

/// A runtime of one thread that drives the connections.
pub(super) struct Driver {
    /// `None` only while the driver is dropped.
    runtime: Option<Runtime>,
    process: Process,
    /// How long the drop of a guard waits for its release.
    answer_timeout: Duration,
}

impl Driver {
    pub(super) fn start(answer_timeout: Duration) -> Result<Self, ConfigError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("quorumlock-blocking")
            .enable_all()
            .build()
            .map_err(|e| ConfigError::System { what: "a thread", why: e.to_string() })?;
        Ok(Self { runtime: Some(runtime), process: Process::current(), answer_timeout })
    }

    /// Runs `work` on the driver's thread. The caller's thread may be any, also one of another
    /// runtime.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.spawn(work)?.recv().map_err(|_| Error::Closed)
    }

    /// Runs the release of a dropped guard, and waits for the answer timeout at most. In a fork it does
    /// nothing.
    pub(super) fn release(
        &self,
        release: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        if let Ok(released) = self.spawn(release) {
            let _ = released.recv_timeout(self.answer_timeout);
        }
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Receiver<T>, Error> {
        // The thread would never send the result.
        self.process.check()?;
        let (done, out) = std::sync::mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().ok_or(Error::Closed)?;
        runtime.spawn(async move {
            // Fails only if the caller's thread is gone: then nobody waits for the result.
            let _ = done.send(work.await);
        });
        Ok(out)
    }
}

impl Drop for Driver {
    /// Does not wait for the runtime, so that a drop inside an async runtime neither blocks nor
    /// panics. In a fork it leaks the runtime: its end would take the connections out of the event
    /// queue, which is the parent's, too.
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        match self.process.check() {
            Ok(()) => runtime.shutdown_background(),
            Err(_) => std::mem::forget(runtime),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
