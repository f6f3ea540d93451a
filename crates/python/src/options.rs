//! The options of a locker, from keyword arguments: those of the library's own table.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use quorumlock::Builder;
use quorumlock::options::{LockerOption, OPTIONS, Value};

use crate::{errors, request};

/// Sets the options that are given.
pub(crate) fn set(mut builder: Builder, options: &Bound<'_, PyDict>) -> PyResult<Builder> {
    for (name, value) in options {
        let name = name.cast::<PyString>()?.to_cow()?.into_owned();
        let option = OPTIONS.iter().find(|option| option.name == name);
        let option =
            option.ok_or_else(|| PyTypeError::new_err(format!("unknown option {name}")))?;
        builder = set_one(builder, option, &value)?;
    }
    Ok(builder)
}

/// Python has checked the type of the value.
fn set_one(builder: Builder, option: &LockerOption, value: &Bound<'_, PyAny>) -> PyResult<Builder> {
    let py = value.py();
    match option.value {
        Value::Time(bounds, set) => {
            let time = request::seconds(option.name, value)?;
            match bounds.check(time) {
                Ok(()) => Ok(set(builder, time)),
                Err(error) => Err(errors::config(py, &error)?),
            }
        }
        Value::Flag(set) => Ok(set(builder, value.extract()?)),
        _ => {
            let text = value.str()?.to_cow()?.into_owned();
            option
                .set(builder, &text)
                .map_err(|why| errors::bad_value(py, &format!("{}: {text:?}: {why}", option.name)))
        }
    }
}

/// The name of each option but the servers, what its value is, and what it does: for the tests,
/// which compare them with the types that Python's tools see.
#[pyfunction]
pub(crate) fn option_kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let kind = |option: &LockerOption| match option.value {
        Value::Flag(_) => Some("flag"),
        Value::Time(..) => Some("time"),
        Value::Word(_) => Some("word"),
        Value::File(_) => Some("file"),
        Value::Text(..) => Some("text"),
        Value::Servers(_) => None,
    };
    OPTIONS.iter().filter_map(|option| Some((option.name, kind(option)?, option.about))).collect()
}
