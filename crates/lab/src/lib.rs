//! The lab: starts Redis servers, breaks them, runs lockers against them, judges what happened.
//!
//! - [`compare`]: the same workload on a single node and on a quorum, side by side.
//! - [`etcd`]: lockers over a cluster of etcd, the consensus to compare with.
//! - [`history`]: the events of a run, one per line, on disk.
//! - [`judge`]: overlaps, handovers, tokens and vacancies, from what the holders recorded.
//! - [`mode`]: the lock configurations to compare: one node, a replicated node, a quorum.
//! - [`promise`]: where exclusion holds by the pages of other libraries.
//! - [`record`]: the JSON records of a run and of an invocation of the lab.
//! - [`report`]: a page, figures and tables from the directories that the lab wrote.
//! - [`svg`]: figures, for the report and for the benches.
//! - [`scenario`]: faults as data, and what theory predicts for each in each mode.
//! - [`runner`]: carries out a scenario in a mode, on real servers and processes or simulated.
//! - [`worker`]: the locker as a separate process.

pub mod compare;
pub mod etcd;
pub mod history;
pub mod judge;
pub mod mode;
pub mod promise;
pub mod record;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod svg;
mod timestamp;
pub mod worker;
mod workload;
