//! Servers for the lab, the tests and the benches of quorumlock. Its API is not stable.
//!
//! - [`servers`]: Redis or Valkey servers as child processes, which can be stopped, killed,
//!   restarted.
//! - `containers` (feature `containers`): servers in containers, which can be disconnected.
//! - [`proxy`]: network ways to a server that can be cut, held or led to another server.
//! - [`command`]: runs a command to its end, for tests of commands.
//! - [`free_port`], [`skip`]: for tests that need a port, or that cannot run on this machine.

pub mod command;
#[cfg(feature = "containers")]
pub mod containers;
mod port;
pub mod proxy;
pub mod servers;
mod skip;

pub use port::free as free_port;
pub use skip::skip;
