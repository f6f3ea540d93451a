//! Benches of quorumlock: `cargo bench -p quorumlock-benches` for the pure parts and for pairs of
//! lock and unlock, `make bench` for the run beside other lock crates.
//!
//! - [`work`]: the workloads P1 to P10 and the growth curves; each measures all of its subjects in
//!   every round, one after the other.
//! - [`subject`]: what is measured: quorumlock, the bare `redis` crate, other lock crates.
//! - [`bed`]: the servers that all of them share; [`relay`]: a long way to them.
//! - [`book`], [`stats`], [`target`]: what was measured, and what it should have been.
//! - [`report`]: tables, plots, documents.

#![allow(missing_debug_implementations, reason = "nobody prints a bench")]

pub mod bed;
pub mod book;
pub mod cpu;
pub mod plan;
pub mod relay;
pub mod report;
pub mod stats;
pub mod subject;
pub mod target;
pub mod work;
