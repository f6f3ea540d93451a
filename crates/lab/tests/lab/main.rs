//! The lab: its command, its drivers (processes, containers, simulation), its report.

#![allow(clippy::unwrap_used, reason = "a test may, and so may its helpers")]

mod browser;
mod command;
#[cfg(feature = "containers")]
mod containers;
mod controls;
mod drivers;
mod etcd;
mod lab_dir;
mod report;
mod report_browser;
mod scenarios;
