//! Short histories for the judges' tests; instants are milliseconds.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::Instant;

use super::{Hold, Wait, Who};

pub(crate) fn at(ms: u64) -> Instant {
    // Later than any instant that a test may subtract from it.
    Instant::NEVER + Duration::from_secs(3_600) + Duration::from_millis(ms)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Task `task` of locker `task / 10` held "x"; asked for at once, token = instant of the grant.
pub(crate) fn held(task: usize, granted: u64, released: u64) -> Hold {
    Hold {
        name: "x".into(),
        who: Who { locker: task / 10, task },
        asked: at(granted),
        granted: at(granted),
        released: at(released),
        valid_until: at(released + 30_000),
        token: granted,
    }
}

pub(crate) fn waited(asked: u64, ended: u64) -> Wait {
    Wait { name: "x".into(), asked: at(asked), ended: at(ended) }
}

/// Another lock: what happens to it says nothing about "x".
pub(crate) fn of_y(hold: Hold) -> Hold {
    Hold { name: Arc::from("y"), ..hold }
}
