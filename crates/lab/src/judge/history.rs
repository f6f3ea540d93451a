//! Short histories for the tests of the judges. Instants are in milliseconds.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::{Hold, Wait, Who};

pub(crate) fn at(ms: u64) -> Instant {
    // An hour after `NEVER`, so that a test can subtract from it.
    Instant::NEVER + Duration::from_secs(3_600) + Duration::from_millis(ms)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Task `task` of locker `task / 10` held "x". It asked at the instant of the grant, which is also
/// its token.
pub(crate) fn held(task: usize, granted: u64, released: u64) -> Hold {
    Hold {
        name: "x".into(),
        permits: 1,
        reads: false,
        who: Who { locker: task / 10, task },
        asked: at(granted),
        granted: at(granted),
        released: at(released),
        valid_until: at(released + 30_000),
        token: granted,
    }
}

/// A task of locker 0 asked for "x" in vain.
pub(crate) fn waited(asked: u64, ended: u64) -> Wait {
    Wait { name: "x".into(), locker: 0, asked: at(asked), ended: at(ended) }
}

/// The same hold of a slot of two permits of "x".
pub(crate) fn of_slot(slot: u16, hold: Hold) -> Hold {
    Hold { name: format!("x#{slot}").into(), permits: 2, ..hold }
}

/// The same hold, for reading.
pub(crate) fn read(hold: Hold) -> Hold {
    Hold { reads: true, ..hold }
}

/// The same hold of another lock, "y", which must not affect what is judged of "x".
pub(crate) fn of_y(hold: Hold) -> Hold {
    Hold { name: Arc::from("y"), ..hold }
}
