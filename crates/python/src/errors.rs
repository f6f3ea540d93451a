//! Errors of the library as exceptions: the same fields, and the text that says who must act.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use quorumlock::{Busy, ConfigError, Error, LossReason, Lost, NoMajority};

use crate::shown::{holder, node_report, variant};

/// The exception that stands for an error. If it cannot be made, the reason for that.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let made = match error {
        Error::Busy(busy) => self::busy(py, busy),
        Error::Config(wrong) => config(py, wrong),
        Error::Lost(lost) => self::lost(py, lost),
        Error::Unreachable(none) => no_majority(py, error, none, "Unreachable"),
        Error::Refused(none) => no_majority(py, error, none, "Refused"),
        Error::Closed => exception(py, "Closed", &error.to_string(), &PyDict::new(py)),
        other => exception(py, "Error", &other.to_string(), &PyDict::new(py)),
    };
    made.unwrap_or_else(|error| error)
}

pub(crate) fn lost(py: Python<'_>, lost: &Lost) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("name", lost.name.as_str())?;
    fields.set_item("reason", reason(lost.why))?;
    exception(py, "Lost", &lost.to_string(), &fields)
}

/// An argument that the library never sees: an unknown word, a number out of range.
pub(crate) fn bad_value(py: Python<'_>, text: &str) -> PyErr {
    let fields = PyDict::new(py);
    let made = fields
        .set_item("problem", "BadValue")
        .and_then(|()| exception(py, "ConfigError", text, &fields));
    made.unwrap_or_else(|error| error)
}

pub(crate) fn config(py: Python<'_>, wrong: &ConfigError) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("problem", variant(wrong))?;
    exception(py, "ConfigError", &wrong.to_string(), &fields)
}

/// The word of a reason.
pub(crate) fn reason(why: LossReason) -> &'static str {
    match why {
        LossReason::WindowShut => "window_shut",
        LossReason::Forced => "forced",
        LossReason::HoldLimit => "hold_limit",
        LossReason::Released => "released",
        // What a later version adds is such a loss as well: the nodes do not hold it.
        _ => "gone",
    }
}

fn busy(py: Python<'_>, busy: &Busy) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("name", busy.name.as_str())?;
    fields.set_item("remaining", busy.remaining.map(|left| left.as_secs_f64()))?;
    exception(py, "Busy", &busy.to_string(), &fields)
}

fn no_majority(py: Python<'_>, error: &Error, none: &NoMajority, class: &str) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("is_retryable", error.is_retryable())?;
    fields.set_item("name", none.name.as_ref().map(|name| name.as_str()))?;
    fields.set_item("of", none.of)?;
    fields.set_item("needed", none.needed)?;
    fields.set_item("answered", none.answered)?;
    fields.set_item("voted", none.voted)?;
    let nodes: PyResult<Vec<_>> = none.nodes.iter().map(|node| node_report(py, node)).collect();
    fields.set_item("nodes", PyTuple::new(py, nodes?)?)?;
    let named = none.holder.as_ref().map(|named| holder(py, named)).transpose()?;
    fields.set_item("holder", named)?;
    fields.set_item("named_by", none.named_by)?;
    fields.set_item("details", format!("{none:#}"))?;
    exception(py, class, &error.to_string(), &fields)
}

/// An exception of the module `quorumlock._errors`, with its text and its fields.
fn exception(
    py: Python<'_>,
    class: &str,
    text: &str,
    fields: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("quorumlock._errors")?.unbind()))?
        .bind(py);
    let exception = module.getattr(class)?.call1((text,))?;
    for (field, value) in fields {
        exception.setattr(field.cast::<pyo3::types::PyString>()?, value)?;
    }
    Ok(PyErr::from_value(exception))
}
