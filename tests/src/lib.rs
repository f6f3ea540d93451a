//! The promises of the library, checked against real servers.
//!
//! - [`promises`]: each promise is one function, run for every [`Topology`] and both layouts.
//! - [`Testbed`]: the servers under one promise; [`Plain`]: a client that knows nothing of locks.
//! - [`worker`]: other processes that count or hold; [`CountPolls`]: futures dropped at a chosen
//!   await.
//! - [`Proxy`]: a path to a server that can be cut, made one-way or redirected.
//!
//! The tests themselves are in `tests/`: `promises`, `scenarios`, `wire`, `config`, `containers`,
//! `house`.

mod builder;
mod dead_node;
mod granted;
mod log;
mod patience;
mod plain;
mod polls;
pub mod promises;
mod second;
mod testbed;
pub mod worker;

pub use self::builder::{builder, scripts_only};
pub use self::dead_node::DeadNode;
pub use self::granted::granted;
pub use self::log::{Log, Told};
pub use self::patience::{MAX_WAIT, Stopwatch, eventually, missed, within};
pub use self::plain::{Channel, Plain, mark_key};
pub use self::polls::{CountPolls, Drops};
pub use self::second::second_server;
pub use self::testbed::{Testbed, Topology, waiters};
pub use quorumlock_testbed::proxy::{Proxy, Way};

/// The examples of these pages compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/FROM_REDISSON.md")]
#[doc = include_str!("../../docs/GUIDE.md")]
#[doc = include_str!("../../docs/OPERATIONS.md")]
#[doc = include_str!("../../docs/COMMANDS.md")]
#[doc = include_str!("../../docs/MONITORING.md")]
struct Pages;
