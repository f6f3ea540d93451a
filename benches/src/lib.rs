//! Benches of quorumlock: `make bench` measures it beside other lock crates, `cargo bench -p
//! quorumlock-benches` its pure parts.
//!
//! - [`plan`]: the workloads P1 to P13 and the growth curves; [`workload`] runs them. Each measures
//!   all of its subjects in every round, one after the other.
//! - [`subject`]: the subjects: quorumlock, the bare `redis` crate, other lock crates, and
//!   baselines that lock nothing. [`driver`] drives the clients of other languages.
//! - [`testbed`]: the servers that all subjects share.
//! - [`results`]: the figures; [`report`]: tables, plots and the page made from them.

#![allow(missing_debug_implementations, reason = "nobody prints a bench")]
#![allow(unnameable_types, reason = "nobody names the parts of a subject")]

pub mod cpu;
pub mod driver;
pub mod names;
pub mod plan;
pub mod report;
pub mod results;
pub mod subject;
pub mod testbed;
pub mod workload;
