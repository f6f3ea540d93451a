//! Answers to questions, as objects of Python.

use std::time::Duration;

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use quorumlock::admission::{NodeStatus, NodeStatusReport};
use quorumlock::telemetry::Stats;
use quorumlock::{HeldLock, Holder, Leadership};

use crate::errors;
use crate::outcome::{self, Value};
use crate::servers::ListedLock;
use crate::shown::{self, class, variant};

pub(crate) fn holder(held: Option<Holder>) -> Value {
    match held {
        Some(holder) => Box::new(move |py| shown::holder(py, &holder)),
        None => outcome::none(),
    }
}

pub(crate) fn holders(all: Vec<Option<Holder>>) -> Value {
    Box::new(move |py| {
        let shown: PyResult<Vec<_>> = all
            .iter()
            .map(|one| one.as_ref().map(|one| shown::holder(py, one)).transpose())
            .collect();
        PyTuple::new(py, shown?)?.into_py_any(py)
    })
}

pub(crate) fn leadership(now: Leadership) -> Value {
    Box::new(move |py| shown_leadership(py, now))
}

pub(crate) fn listed(lock: HeldLock) -> Value {
    Box::new(move |py| shown_listed(py, lock))
}

pub(crate) fn nodes(nodes: Vec<NodeStatusReport>) -> Value {
    Box::new(move |py| {
        let shown: PyResult<Vec<_>> = nodes.iter().map(|one| node(py, one)).collect();
        PyTuple::new(py, shown?)?.into_py_any(py)
    })
}

fn shown_leadership(py: Python<'_>, now: Leadership) -> PyResult<Py<PyAny>> {
    static LEADERSHIP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = class(py, &LEADERSHIP, "Leadership")?;
    let of = match now {
        Leadership::Leader(leader) => ("leader", Some(shown::holder(py, &leader)?), None),
        Leadership::Nobody => ("nobody", None, None),
        Leadership::Unknown(error) => {
            let error = errors::raised(py, &error).into_value(py);
            ("unknown", None, Some(error.into_any()))
        }
        other => ("unknown", None, Some(format!("{other:?}").into_py_any(py)?)),
    };
    Ok(class.call1(of)?.unbind())
}

fn shown_listed(py: Python<'_>, lock: HeldLock) -> PyResult<Py<PyAny>> {
    static LISTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let holder = shown::holder(py, &lock.holder)?;
    let (name, kind, slot) = (lock.name.clone(), lock.kind.as_str(), lock.slot);
    let of = (name, kind, slot, holder, ListedLock::new(lock));
    Ok(class(py, &LISTED, "HeldLock")?.call1(of)?.unbind())
}

fn node(py: Python<'_>, node: &NodeStatusReport) -> PyResult<Py<PyAny>> {
    static NODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let problem = match &node.status {
        Ok(status) => status.problem(),
        Err(problem) => Some(problem.clone()),
    };
    let voice = match &node.status {
        Ok(NodeStatus::Admitted(_)) => None,
        _ => problem.as_ref().map(variant),
    };
    let text = problem.map(|problem| problem.to_string());
    let of = (&node.node, &*node.label, node.is_admitted(), voice, text);
    Ok(class(py, &NODE, "NodeStatus")?.call1(of)?.unbind())
}

pub(crate) fn stats(py: Python<'_>, stats: &Stats) -> PyResult<Py<PyAny>> {
    static STATS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of = PyDict::new(py);
    of.set_item("waiting", stats.waiting)?;
    of.set_item("granted", stats.granted)?;
    of.set_item("busy", stats.busy)?;
    of.set_item("failed", stats.failed)?;
    of.set_item("closed", stats.closed)?;
    of.set_item("dropped", stats.dropped)?;
    of.set_item("held", stats.held)?;
    of.set_item("oldest", stats.oldest.map(|age: Duration| age.as_secs_f64()))?;
    of.set_item("released", stats.released)?;
    of.set_item("lost", stats.lost)?;
    of.set_item("renewed", stats.renewed)?;
    of.set_item("not_renewed", stats.not_renewed)?;
    Ok(class(py, &STATS, "Stats")?.call((), Some(&of))?.unbind())
}
