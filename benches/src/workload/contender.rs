//! What is measured in turns: subjects of this process, and clients of other languages.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::driver::{Client, Driver};
use crate::subject::{Kind, Refusing, Subject};

/// A client that is measured.
pub(super) enum Contender {
    /// A subject in this process.
    Here(Kind, Subject),
    /// A client in another process, which several cases may share.
    There(&'static Client, Arc<Mutex<Driver>>),
}

impl Contender {
    /// What listens to `tracing` while it is measured.
    pub(super) fn subscriber(&self) -> Option<Refusing> {
        match self {
            Self::Here(kind, _) => kind.subscriber(),
            Self::There(..) => None,
        }
    }

    /// The name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Here(kind, _) => kind.name(),
            Self::There(client, _) => client.name,
        }
    }
}
