//! Processor time and memory of processes on Linux. Other systems give no values.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The processor time of all threads of a process.
#[must_use]
pub fn used(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let nanos = threads.flatten().filter_map(|thread| nanos(&thread.path().join("schedstat")));
    Some(Duration::from_nanos(nanos.sum()))
}

/// The processor time of this process, of threads that have ended, too: those of a subject end with it.
#[must_use]
pub fn used_by_us() -> Option<Duration> {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

/// The resident memory of this process in bytes.
#[must_use]
pub fn resident() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}

/// Pins a process, or this one (`None`), to one processor. Measurements then show the software, not
/// the time that a sleeping processor takes to wake up.
pub fn pin(pid: Option<u32>, to: Core) {
    let mut one = CpuSet::new();
    one.set(to as usize);
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    // A failure is ignored: without pinning the figures are only noisier.
    let _ = sched_setaffinity(pid, &one);
}

/// Runs `act` with the calling thread, and the processes that it starts, pinned to one processor.
pub fn pinned<T>(to: Core, act: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    pin(None, to);
    let done = act();
    if let Ok(before) = before {
        // As above.
        let _ = sched_setaffinity(None, &before);
    }
    done
}

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// The processor of the servers, and of clients that await each answer: only one side runs at a
    /// time anyway.
    Servers = 0,
    /// The processor of clients with many tasks, which work while the servers do.
    Clients = 1,
}

fn nanos(schedstat: &Path) -> Option<u64> {
    fs::read_to_string(schedstat).ok()?.split(' ').next()?.parse().ok()
}
