//! The runtime that drives connections: one for each process, made with the first call.

use std::future::Future;
use std::sync::Mutex;

use pyo3::PyResult;
use pyo3::exceptions::PyOSError;
use pyo3::marker::Python;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// The process that made the runtime, and the runtime.
///
/// It is locked by threads that hold the GIL only, and never while they let it go. A thread that
/// forks holds the GIL, so no other thread has the lock at that time, and the child can take it.
static RUNTIME: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// Runs `work` on the runtime of this process.
pub(crate) fn spawn<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<JoinHandle<T>> {
    Ok(handle(py)?.spawn(work))
}

/// The runtime of this process. In a fork it is a new one: the parent's threads are not there.
pub(crate) fn handle(_attached: Python<'_>) -> PyResult<Handle> {
    let here = std::process::id();
    let mut runtime = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((process, runtime)) = &*runtime
        && *process == here
    {
        return Ok(runtime.handle().clone());
    }
    // One worker, as `quorumlock::blocking` has: it only moves bytes.
    let fresh = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("quorumlock")
        .enable_all()
        .build()
        .map_err(|error| PyOSError::new_err(format!("no thread for quorumlock: {error}")))?;
    let handle = fresh.handle().clone();
    // Its end would take the connections out of the event queue, which is the parent's, too.
    std::mem::forget(runtime.replace((here, fresh)));
    Ok(handle)
}
