//! A held lock, of any kind.

use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use quorumlock::{HoldView, LossReason, Lost};

use crate::guard::{AnyGuard, HoldCell};
use crate::op::Op;
use crate::outcome::{self, Value};
use crate::{errors, exit, runtime};

/// A hold, as what a call gives.
pub(crate) fn given(guard: AnyGuard) -> Value {
    let cell = HoldCell::new(guard);
    Box::new(move |py| Hold::new(cell).into_py_any(py))
}

/// A lock that is held until it is unlocked, lost or collected.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Hold(Option<Arc<HoldCell>>);

impl Hold {
    pub(crate) fn new(cell: Arc<HoldCell>) -> Self {
        exit::watch(&cell);
        Self(Some(cell))
    }

    fn cell(&self) -> &Arc<HoldCell> {
        self.0.as_ref().expect("only the drop takes it")
    }

    fn view(&self) -> &HoldView {
        &self.cell().view
    }
}

impl Drop for Hold {
    /// The last guard of a locker waits for the servers: the GIL is free meanwhile.
    fn drop(&mut self) {
        let cell = self.0.take();
        if cell.as_ref().is_some_and(|cell| cell.guard().is_some()) {
            Python::try_attach(|py| py.detach(|| drop(cell)));
        }
    }
}

#[pymethods]
impl Hold {
    fn name(&self) -> &str {
        self.view().name()
    }

    fn names(&self) -> Vec<&str> {
        self.view().names().collect()
    }

    fn token(&self) -> u64 {
        self.view().token().get()
    }

    fn nonce(&self) -> String {
        self.view().nonce().to_string()
    }

    fn slot(&self) -> Option<u16> {
        self.view().slot()
    }

    fn valid_for(&self) -> f64 {
        self.view().valid_for().as_secs_f64()
    }

    fn is_valid(&self) -> bool {
        self.view().is_valid()
    }

    fn is_at_risk(&self) -> bool {
        self.view().is_at_risk()
    }

    /// Raises `Lost` if the lock is not held at this instant.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.view().check() {
            Ok(()) => Ok(()),
            Err(lost) => Err(errors::lost(py, &lost)?),
        }
    }

    fn loss_ahead(&self) -> &'static str {
        errors::reason(self.view().loss_ahead())
    }

    /// Whether the lock was given back, also after a loss.
    fn is_ended(&self) -> bool {
        self.cell().guard().is_none()
    }

    fn hold_count(&self) -> u32 {
        self.cell().guard().as_ref().map_or(0, AnyGuard::hold_count)
    }

    /// Gives the lock back, and waits for the servers.
    fn unlock(&self) -> Op {
        let cell = self.cell().clone();
        // The call takes the guard when it begins. A call that never begins leaves it here.
        Op::new(async move {
            match cell.take() {
                Some(guard) => guard.unlock().await.map(|()| outcome::none()),
                None => Err(cell.ended()),
            }
        })
    }

    /// Gives the lock back in the background.
    pub(crate) fn abandon(&self) {
        drop(self.cell().take());
    }

    fn renew(&self) -> Op {
        let cell = self.cell().clone();
        Op::new(async move {
            let renewal = cell.guard().as_ref().map(AnyGuard::renew);
            match renewal {
                Some(renewal) => renewal.await.map(|()| outcome::none()),
                None => Err(cell.ended()),
            }
        })
    }

    /// Goes on as a reader. Of a writer only.
    fn downgrade(&self) -> Op {
        let cell = self.cell().clone();
        Op::new(async move {
            match cell.take() {
                Some(AnyGuard::Write(guard)) => {
                    let reader = guard.downgrade().await?;
                    Ok(given(AnyGuard::Read(reader)))
                }
                other => {
                    *cell.guard() = other;
                    Err(cell.ended())
                }
            }
        })
    }

    /// Leaves the lock held for another process. Of a lock only.
    #[pyo3(name = "into_ticket")]
    fn leave(&self, py: Python<'_>) -> PyResult<String> {
        let ticket = match self.cell().take() {
            Some(AnyGuard::Lock(guard)) => py.detach(|| guard.into_ticket()),
            other => {
                *self.cell().guard() = other;
                Err(self.cell().ended())
            }
        };
        match ticket {
            Ok(ticket) => Ok(ticket.to_string()),
            Err(error) => Err(errors::raised(py, &error)),
        }
    }

    /// Waits until the lock is no longer held, or for `time` seconds: then it gives `None`.
    #[pyo3(signature = (time=None))]
    fn lost(&self, time: Option<f64>) -> Op {
        let view = self.view().clone();
        Op::new(async move {
            let lost = within(time, view.lost()).await;
            Ok(lost.map_or_else(outcome::none, loss))
        })
    }

    /// Waits until the lock is at risk or lost, or for `time` seconds: then it gives `False`.
    #[pyo3(signature = (time=None))]
    fn at_risk(&self, time: Option<f64>) -> Op {
        let view = self.view().clone();
        Op::new(async move { Ok(outcome::flag(within(time, view.at_risk()).await.is_some())) })
    }

    /// Calls `callback` with the exception once the lock is lost, on a thread of its own. A lock
    /// that is given back is not lost.
    fn on_lost(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let view = self.view().clone();
        runtime::spawn(py, async move {
            let lost = view.lost().await;
            // The GIL may be blocked: no worker of the runtime may wait for it.
            let _ = tokio::task::spawn_blocking(move || tell(lost, callback)).await;
        })?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.view())
    }
}

/// What comes within the time. A time that no clock can count is no limit.
async fn within<T>(time: Option<f64>, what: impl Future<Output = T>) -> Option<T> {
    let limit = time.map(Duration::try_from_secs_f64);
    match limit {
        Some(Ok(limit)) => tokio::time::timeout(limit, what).await.ok(),
        _ => Some(what.await),
    }
}

fn loss(lost: Lost) -> Value {
    Box::new(move |py| Ok(errors::lost(py, &lost)?.into_value(py).into_any()))
}

fn tell(lost: Lost, callback: Py<PyAny>) {
    // Without an interpreter nobody is left to be told.
    Python::try_attach(|py| {
        if lost.why == LossReason::Released {
            return;
        }
        let told =
            errors::lost(py, &lost).and_then(|lost| callback.call1(py, (lost.into_value(py),)));
        if let Err(error) = told {
            error.write_unraisable(py, Some(callback.bind(py)));
        }
    });
}
