//! What the tasks of a client do, the same on real servers and in the simulation: lock, access the
//! resource, work, write, unlock.

mod client;
mod details;
mod task;

pub(crate) use self::client::{Client, Kind};
pub(crate) use self::details::Details;
pub(crate) use self::task::{Task, tasks};
