//! Benches of quorumlock: `make bench` measures it beside other lock crates, `cargo bench -p
//! quorumlock-benches` its pure parts.
//!
//! - [`plan`]: the workloads P1 to P11 and the growth curves; [`workload`] runs them. Each measures
//!   all of its subjects in every round, one after the other.
//! - [`subject`]: what is measured: quorumlock, the bare `redis` crate, other lock crates, and
//!   baselines that lock nothing.
//! - [`testbed`]: the servers that all of them share; [`relay`]: a long way to them.
//! - [`results`]: what was measured; [`report`]: tables, plots and the page made from that.

#![allow(missing_debug_implementations, reason = "nobody prints a bench")]

pub mod cpu;
pub mod plan;
pub mod relay;
pub mod report;
pub mod results;
pub mod subject;
pub mod testbed;
pub mod workload;
