//! A locker: options, locks, and questions about locks.

use futures_util::StreamExt as _;
use futures_util::stream::TryStreamExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use quorumlock::{Builder, Error};

use crate::op::Op;
use crate::request::{self, Owner, Wanted};
use crate::servers::{ListedLock, Servers};
use crate::stream::Stream;
use crate::{answers, ask, errors, options, outcome};

/// Takes locks on the servers that it is made for.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Locker(Option<quorumlock::Locker>);

impl Locker {
    fn inner(&self) -> &quorumlock::Locker {
        self.0.as_ref().expect("only the drop takes it")
    }
}

impl Drop for Locker {
    /// The last handle of a locker waits for its releases: the GIL is free meanwhile.
    fn drop(&mut self) {
        let inner = self.0.take();
        Python::try_attach(|py| py.detach(|| drop(inner)));
    }
}

#[pymethods]
impl Locker {
    /// Without servers: those of the environment, with its options.
    #[new]
    #[pyo3(signature = (servers, options))]
    fn new(
        py: Python<'_>,
        servers: Option<&Servers>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let builder = match servers {
            Some(servers) => Ok(quorumlock::Locker::builder(servers.0.clone())),
            None => Builder::from_env(),
        };
        let builder = builder.map_err(|error| errors::raised(py, &error))?;
        let builder = options::set(builder, options)?;
        let inner = py.detach(|| builder.build()).map_err(|error| errors::raised(py, &error))?;
        Ok(Self(Some(inner)))
    }

    /// A call for a lock: `kind` is `lock`, `read`, `write`, `permit` or `lead`.
    #[pyo3(signature = (kind, names, permits, waits, options=None))]
    fn acquire(
        &self,
        kind: &str,
        names: &Bound<'_, PyAny>,
        permits: u32,
        waits: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let one;
        let wanted = match kind {
            "lock" => Wanted::Lock(names_of(names)?),
            "read" | "write" | "permit" | "lead" => {
                one = names.cast::<PyString>()?.to_cow()?;
                match kind {
                    "read" => Wanted::Read(&one),
                    "write" => Wanted::Write(&one),
                    "lead" => Wanted::Lead(&one),
                    _ => Wanted::Permit(&one, permits),
                }
            }
            _ => return Err(errors::bad_value(names.py(), "no such kind of lock")),
        };
        request::acquire(self.inner(), wanted, waits, options)
    }

    /// The names of a handle with the locker's prefix.
    fn full_names(&self, names: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let mutex = self.inner().mutex(names_of(names)?);
        Ok(mutex.names().map(str::to_owned).collect())
    }

    fn holder(&self, kind: &str, names: &Bound<'_, PyAny>) -> PyResult<Op> {
        ask::holder(self.inner(), kind, names_of(names)?)
    }

    fn force_unlock(&self, kind: &str, names: &Bound<'_, PyAny>) -> PyResult<Op> {
        ask::force_unlock(self.inner(), kind, names_of(names)?)
    }

    fn is_held_by(&self, names: &Bound<'_, PyAny>, owner: &Owner) -> PyResult<Op> {
        let held = self.inner().mutex(names_of(names)?).is_held_by(&owner.0);
        Ok(Op::new(async move { held.await.map(outcome::flag) }))
    }

    fn is_locked(&self, names: &Bound<'_, PyAny>) -> PyResult<Op> {
        let held = self.inner().mutex(names_of(names)?).is_locked();
        Ok(Op::new(async move { held.await.map(outcome::flag) }))
    }

    /// The holder of each slot of permits.
    fn holders(&self, name: &str, permits: u32) -> Op {
        let holders = self.inner().semaphore(name, permits).holders();
        Op::new(async move { holders.await.map(answers::holders) })
    }

    fn force_release(&self, name: &str, permits: u32, slot: u16) -> Op {
        let freed = self.inner().semaphore(name, permits).force_release(slot);
        Op::new(async move { freed.await.map(outcome::flag) })
    }

    /// Who leads, and then each change.
    fn observe(&self, name: &str) -> Stream {
        Stream::new(self.inner().election(name).observe().map_ok(answers::leadership).boxed())
    }

    /// The locks that are held.
    fn list(&self) -> Stream {
        Stream::new(self.inner().list().map_ok(answers::listed).boxed())
    }

    fn force_unlock_from(&self, lock: &ListedLock) -> Op {
        let (inner, lock) = (self.inner().clone(), lock.0.clone());
        Op::new(async move { inner.force_unlock_from(&lock).await.map(outcome::flag) })
    }

    fn resume(&self, py: Python<'_>, ticket: &str) -> PyResult<Op> {
        match ticket.parse() {
            Ok(ticket) => Ok(ask::resume(self.inner(), ticket)),
            Err(error) => Err(errors::config(py, &error)?),
        }
    }

    fn ping(&self) -> Op {
        self.unit(|inner| async move { inner.ping().await })
    }

    fn close(&self) -> Op {
        self.unit(|inner| async move {
            inner.close().await;
            Ok(())
        })
    }

    fn admit_nodes(&self) -> Op {
        self.unit(|inner| async move { inner.admit_nodes().await })
    }

    fn force_admit_nodes(&self) -> Op {
        self.unit(|inner| async move { inner.force_admit_nodes().await })
    }

    fn node_status(&self) -> Op {
        let inner = self.inner().clone();
        Op::new(async move { inner.node_status().await.map(answers::nodes) })
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answers::stats(py, &self.inner().stats())
    }
}

impl Locker {
    /// A call that gives nothing.
    fn unit<F>(&self, call: impl FnOnce(quorumlock::Locker) -> F) -> Op
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let called = call(self.inner().clone());
        Op::new(async move { called.await.map(|()| outcome::none()) })
    }
}

/// One name, or several.
fn names_of(names: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match names.cast::<PyString>() {
        Ok(name) => Ok(vec![name.to_cow()?.into_owned()]),
        Err(_) => names.extract(),
    }
}
