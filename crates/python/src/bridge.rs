//! Results of calls on their way into a loop of asyncio.
//!
//! A thread of the runtime that has a result puts it into a queue, and wakes the loop by one byte
//! in a socket. It never takes the GIL, so it waits for no code of Python. The loop then takes all
//! results that are there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::hold::Hold;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::{errors, runtime};

/// The results for one loop.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Bridge {
    done: Arc<Done>,
    /// The futures that wait. It is used in the loop's thread, with the GIL.
    waiting: Mutex<Waiting>,
    #[cfg(unix)]
    woken: std::os::unix::net::UnixStream,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    futures: HashMap<u64, (Py<PyAny>, AbortHandle)>,
}

/// What the runtime's threads have of a bridge.
struct Done {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    wake: Wake,
}

/// How a loop is woken.
enum Wake {
    /// The loop reads the other end.
    #[cfg(unix)]
    Socket(std::os::unix::net::UnixStream),
    /// For loops that watch no descriptors: calls it with the GIL, on a thread for what blocks.
    Call(Arc<Py<PyAny>>),
}

#[pymethods]
impl Bridge {
    /// Without `call` the loop has to watch `fileno()`; else `call` is called when results come.
    #[new]
    #[pyo3(signature = (call=None))]
    fn new(call: Option<Py<PyAny>>) -> PyResult<Self> {
        #[cfg(unix)]
        {
            let (woken, waker) = std::os::unix::net::UnixStream::pair()?;
            woken.set_nonblocking(true)?;
            waker.set_nonblocking(true)?;
            let wake = call.map_or_else(|| Wake::Socket(waker), |call| Wake::Call(Arc::new(call)));
            Ok(Self { done: Done::new(wake), waiting: Mutex::default(), woken })
        }
        #[cfg(not(unix))]
        {
            let missing = || pyo3::exceptions::PyOSError::new_err("no sockets to watch here");
            let wake = Wake::Call(Arc::new(call.ok_or_else(missing)?));
            Ok(Self { done: Done::new(wake), waiting: Mutex::default() })
        }
    }

    /// The descriptor to watch; -1 if there is none.
    fn fileno(&self) -> i32 {
        #[cfg(unix)]
        return std::os::fd::AsRawFd::as_raw_fd(&self.woken);
        #[cfg(not(unix))]
        return -1;
    }

    /// Begins a call. Its result becomes that of `future`, in the loop.
    fn start(&self, py: Python<'_>, op: &Op, future: Py<PyAny>) -> PyResult<u64> {
        let work = op.take()?;
        let mut waiting = self.waiting();
        waiting.last += 1;
        let (number, done) = (waiting.last, self.done.clone());
        let task = runtime::spawn(py, async move {
            let outcome = work.await;
            done.add(number, outcome);
        })?;
        waiting.futures.insert(number, (future, task.abort_handle()));
        Ok(number)
    }

    /// Drops a call whose future nobody awaits any more. What it was granted is given back.
    fn cancel(&self, py: Python<'_>, number: u64, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let waits = self.waiting().futures.remove(&number);
        if let Some((_, task)) = waits {
            task.abort();
            return Ok(());
        }
        // The result came in the same turn of the loop as the cancellation.
        let has = |what| future.call_method0(what)?.is_truthy();
        if has(intern!(py, "done"))? && !has(intern!(py, "cancelled"))? {
            if !future.call_method0(intern!(py, "exception"))?.is_none() {
                return Ok(());
            }
            let result = future.call_method0(intern!(py, "result"))?;
            if let Ok(hold) = result.cast::<Hold>() {
                hold.get().abandon();
            }
        }
        Ok(())
    }

    /// Gives the futures their results. The loop calls it, in its thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.empty();
        let outcomes = std::mem::take(&mut *self.done.outcomes());
        for (number, outcome) in outcomes {
            let waits = self.waiting().futures.remove(&number);
            // Without one it was cancelled: the outcome is dropped here, and a hold with it.
            let Some((future, _)) = waits else { continue };
            let future = future.bind(py);
            if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                continue;
            }
            let result = match outcome {
                Ok(value) => value(py),
                Err(error) => Err(errors::raised(py, &error)),
            };
            match result {
                Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
                Err(error) => {
                    future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?
                }
            };
        }
        Ok(())
    }
}

impl Bridge {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the bytes that woke the loop, before the results: a byte of a later one stays.
    fn empty(&self) {
        #[cfg(unix)]
        {
            use std::io::Read as _;
            let mut bytes = [0; 64];
            while (&self.woken).read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        }
    }
}

impl Done {
    fn new(wake: Wake) -> Arc<Self> {
        Arc::new(Self { outcomes: Mutex::default(), wake })
    }

    fn outcomes(&self) -> MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a result. Only the first one of several wakes the loop.
    fn add(&self, number: u64, outcome: Outcome) {
        let first = {
            let mut outcomes = self.outcomes();
            outcomes.push((number, outcome));
            outcomes.len() == 1
        };
        if first {
            self.wake();
        }
    }

    fn wake(&self) {
        match &self.wake {
            #[cfg(unix)]
            Wake::Socket(socket) => {
                use std::io::Write as _;
                // It fails if the loop is gone, or if bytes enough to wake it are there.
                let _ = (&mut &*socket).write(&[1]);
            }
            Wake::Call(call) => {
                let call = call.clone();
                // The GIL may be blocked: no worker of the runtime may wait for it.
                tokio::task::spawn_blocking(move || {
                    Python::try_attach(|py| {
                        if let Err(error) = call.call0(py) {
                            error.write_unraisable(py, None);
                        }
                    })
                });
            }
        }
    }
}
