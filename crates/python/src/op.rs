//! A call that has not begun: a thread waits for it, or a loop of asyncio.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::task::JoinHandle;

use crate::outcome::{self, Outcome};
use crate::{errors, runtime};

/// What a call does, without the GIL.
pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A call that nobody has begun yet.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Op(Mutex<Option<Work>>);

impl Op {
    pub(crate) fn new(work: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(work))))
    }

    /// The work, once.
    pub(crate) fn take(&self) -> PyResult<Work> {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.ok_or_else(|| PyRuntimeError::new_err("this call has begun already"))
    }
}

/// Most calls end within this time, and then nobody looks for signals.
const SHORT: Duration = Duration::from_millis(5);

/// How often the main thread looks for signals while it waits: a Ctrl-C seems to work at once.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(20);

#[pymethods]
impl Op {
    /// Waits for the end of the call, without the GIL. A signal handler that raises ends the wait:
    /// the call is dropped, and what it was granted is given back. So it is once `time` seconds are
    /// over: the result is then `None`.
    #[pyo3(signature = (time=None))]
    fn wait(&self, py: Python<'_>, time: Option<f64>) -> PyResult<Py<PyAny>> {
        let work = limited(self.take()?, time);
        let (sender, receiver) = sync_channel(1);
        let task = runtime::spawn(py, async move {
            // Fails only if the caller was interrupted. A hold is then dropped with the result.
            let _ = sender.send(work.await);
        })?;
        match received(py, receiver, &task)? {
            Ok(value) => value(py),
            Err(error) => Err(errors::raised(py, &error)),
        }
    }
}

fn limited(work: Work, time: Option<f64>) -> Work {
    let Some(Ok(limit)) = time.map(Duration::try_from_secs_f64) else { return work };
    Box::pin(async move {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Ok(outcome::none()))
    })
}

fn received(
    py: Python<'_>,
    mut receiver: Receiver<Outcome>,
    task: &JoinHandle<()>,
) -> PyResult<Outcome> {
    let mut first = true;
    loop {
        let time = match first {
            true => Some(SHORT),
            // Python runs signal handlers in the main thread only.
            false => is_main_thread(py)?.then_some(BETWEEN_SIGNALS),
        };
        first = false;
        let came;
        (came, receiver) = py.detach(move || (receive(&receiver, time), receiver));
        match came {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    task.abort();
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a call of quorumlock failed inside"));
            }
        }
    }
}

fn receive(
    receiver: &Receiver<Outcome>,
    time: Option<Duration>,
) -> Result<Outcome, RecvTimeoutError> {
    match time {
        Some(time) => receiver.recv_timeout(time),
        None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let here = threading.call_method0("current_thread")?;
    Ok(here.is(&threading.call_method0("main_thread")?))
}
