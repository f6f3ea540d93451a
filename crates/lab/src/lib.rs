//! The lab: starts Redis servers, breaks them, runs lockers against them, judges what happened.
//!
//! - [`compare`]: the same workload on a single node and on a quorum, side by side.
//! - [`history`]: what happened in a run, one event a line, on disk.
//! - [`judge`]: what the holders' own records say: overlaps, handovers, tokens, vacancies.
//! - [`record`]: what is kept of a run and of an invocation of the lab, as JSON.
//! - [`report`]: a page, figures and tables of what the lab left on disk.
//! - [`servers`]: servers as child processes of ours, for the comparison, the lab and the tests.
//! - [`sim`]: whole fleets under simulated time, every fault decided by one seed.
//! - `containers` (feature `containers`): servers in containers, which can be cut off the network.

pub mod compare;
#[cfg(feature = "containers")]
pub mod containers;
pub mod history;
pub mod judge;
mod port;
pub mod record;
pub mod report;
pub mod servers;
#[cfg(feature = "sim")]
pub mod sim;
mod skip;
