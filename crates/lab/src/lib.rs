//! The lab: starts Redis servers, breaks them, runs lockers against them, judges what happened.
//!
//! - [`judge`]: what the holders' own records say: overlaps, handovers, tokens, vacancies.
//! - [`servers`]: servers as child processes of ours, for the comparison, the lab and the tests.
//! - `containers` (feature `containers`): servers in containers, which can be cut off the network.

#[cfg(feature = "containers")]
pub mod containers;
pub mod judge;
mod port;
pub mod servers;
mod skip;
