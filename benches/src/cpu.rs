//! Processor time and memory of processes, as Linux tells it; nothing elsewhere.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// What all threads of a process have computed.
#[must_use]
pub fn used(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let nanos = threads.flatten().filter_map(|thread| nanos(&thread.path().join("schedstat")));
    Some(Duration::from_nanos(nanos.sum()))
}

/// What our own threads have computed.
#[must_use]
pub fn used_by_us() -> Option<Duration> {
    used(std::process::id())
}

/// Our resident memory in bytes.
#[must_use]
pub fn resident() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}

/// Keeps a process, or our own (`None`), on one processor: what is measured then is software, not
/// how long a sleeping processor takes to wake up.
pub fn pin(pid: Option<u32>, to: Core) {
    let mut one = CpuSet::new();
    one.set(to as usize);
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    // Where that is not allowed, or there is no such processor, the figures are noisier, no more.
    let _ = sched_setaffinity(pid, &one);
}

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// That of the servers, and of clients that wait for each answer: one runs at a time anyway.
    Servers = 0,
    /// That of clients with many tasks, who work while the servers do.
    Clients = 1,
}

fn nanos(schedstat: &Path) -> Option<u64> {
    fs::read_to_string(schedstat).ok()?.split(' ').next()?.parse().ok()
}
