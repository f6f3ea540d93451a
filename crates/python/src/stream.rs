//! What comes one by one: locks that are held, changes of who leads.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use pyo3::prelude::*;
use quorumlock::Error;
use tokio::sync::Mutex;

use crate::op::Op;
use crate::outcome::{self, Value};

type Items = BoxStream<'static, Result<Value, Error>>;

/// A stream of the library. `next` is dropped without harm: the item then comes with the next call.
#[pyclass(frozen, module = "quorumlock._native")]
pub(crate) struct Stream(Arc<Mutex<Items>>);

impl Stream {
    pub(crate) fn new(items: Items) -> Self {
        Self(Arc::new(Mutex::new(items)))
    }
}

#[pymethods]
impl Stream {
    /// The next item; `None` at the end.
    fn next(&self) -> Op {
        let items = self.0.clone();
        Op::new(
            async move { items.lock().await.next().await.unwrap_or_else(|| Ok(outcome::none())) },
        )
    }
}
