//! The command `quorumlock` as a process: what it prints, its exit codes, what it does on a loss.

#![allow(clippy::unwrap_used, reason = "a test may, and so may its helpers")]

mod common;
mod env;
mod first_process;
mod hold_at_least;
mod init;
mod jobs;
mod json_errors;
mod lead;
mod list;
mod look;
mod loss;
mod members;
mod members_change;
#[cfg(target_os = "linux")]
mod names;
mod nested;
mod pages;
mod passwords;
mod permissions;
mod permits;
mod previous;
mod read_write;
mod run;
mod stopped;
mod terminal;
mod top;
