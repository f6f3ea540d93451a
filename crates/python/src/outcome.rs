//! What a call gives, before it is an object of Python.

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use quorumlock::Error;

/// What a call gives, made without the GIL.
pub(crate) type Outcome = Result<Value, Error>;

/// A result that becomes an object once a thread has the GIL.
pub(crate) type Value = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Nothing, or nobody.
pub(crate) fn none() -> Value {
    Box::new(|py| Ok(py.None()))
}

/// Yes or no.
pub(crate) fn flag(flag: bool) -> Value {
    Box::new(move |py| flag.into_py_any(py))
}
