//! The lab: starts Redis servers, breaks them, runs lockers against them, judges what happened.
//!
//! - [`compare`]: the same workload on a single node and on a quorum, side by side.
//! - [`history`]: what happened in a run, one event a line, on disk.
//! - [`judge`]: what the holders' own records say: overlaps, handovers, tokens, vacancies.
//! - [`mode`]: one node, a replicated one, a quorum: what is compared.
//! - [`proxy`]: ways to a server that can be cut, held or led elsewhere.
//! - [`record`]: what is kept of a run and of an invocation of the lab, as JSON.
//! - [`report`]: a page, figures and tables of what the lab left on disk.
//! - [`scenario`]: faults as data, and what theory says of each in each mode.
//! - [`servers`]: servers as child processes of ours, for the comparison, the lab and the tests.
//! - [`sim`]: whole fleets under simulated time, every fault decided by one seed.
//! - [`trial`]: carries out a scenario in a mode, on real servers and real processes.
//! - [`worker`]: the locker as a process of its own.
//! - `containers` (feature `containers`): servers in containers, which can be cut off the network.

pub mod compare;
#[cfg(feature = "containers")]
pub mod containers;
#[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "the simulation draws more ways"))]
mod dice;
pub mod history;
pub mod judge;
pub mod mode;
mod port;
pub mod proxy;
pub mod record;
pub mod report;
pub mod scenario;
pub mod servers;
#[cfg(feature = "sim")]
pub mod sim;
mod skip;
mod stamp;
pub mod trial;
pub mod worker;
