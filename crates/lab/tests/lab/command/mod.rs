//! The command `quorumlock-lab` as a process: its output, its files, its exit codes, an interrupt.

mod compare;
mod json_errors;
mod lab;
mod pages;
pub(crate) mod process;
mod report;
mod takeover_delay;
mod workers;
