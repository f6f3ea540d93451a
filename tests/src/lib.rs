//! What the library promises, checked against real servers.
//!
//! - [`promises`]: each promise is one function, run for every [`Topology`] and both wires.
//! - [`Bed`]: the servers under one promise; [`Plain`]: a client that knows nothing of locks.
//! - [`worker`]: other processes that count or hold; [`Polls`]: futures dropped at a chosen await.
//! - [`Proxy`]: a way to a server that can be cut, made one-way or led elsewhere.
//!
//! The tests themselves stand in `tests/`: `promises`, `scenarios`, `wire`, `config`,
//! `containers`, `house`.

mod bed;
mod builder;
mod dead;
mod patience;
mod plain;
mod polls;
pub mod promises;
mod second;
pub mod worker;

pub use self::bed::{Bed, Topology, waiters};
pub use self::builder::{builder, scripts_only};
pub use self::dead::DeadNode;
pub use self::patience::{PATIENCE, Stopwatch, eventually, skipped, within};
pub use self::plain::{Channel, Plain, mark_key};
pub use self::polls::{Drops, Polls};
pub use self::second::second_server;
pub use quorumlock_lab::proxy::{Proxy, Way};
