//! What errors and answers show, as objects of the module `quorumlock._values`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use quorumlock::{Holder, NodeReport};

/// A class of the module `quorumlock._values`.
pub(crate) fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let class = cell.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("quorumlock._values")?.getattr(name)?.unbind())
    })?;
    Ok(class.bind(py).clone())
}

pub(crate) fn holder(py: Python<'_>, holder: &Holder) -> PyResult<Py<PyAny>> {
    static HOLDER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of = (
        &holder.id,
        holder.remaining.map(|left| left.as_secs_f64()),
        holder.holds,
        &holder.label,
        holder.last_token.map(quorumlock::FencingToken::get),
        holder.waiters,
    );
    Ok(class(py, &HOLDER, "Holder")?.call1(of)?.unbind())
}

pub(crate) fn node_report(py: Python<'_>, node: &NodeReport) -> PyResult<Py<PyAny>> {
    static REPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let problem = &node.problem;
    let of = (&node.node, variant(problem), problem.to_string(), problem.may_pass());
    Ok(class(py, &REPORT, "NodeReport")?.call1(of)?.unbind())
}

/// The name of a variant: `Permission` of `Permission("NOPERM")`.
pub(crate) fn variant(of: &impl std::fmt::Debug) -> String {
    format!("{of:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}
