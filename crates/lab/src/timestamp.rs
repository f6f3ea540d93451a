//! Timestamps of events. They use the raw clocks of the host, which all its processes share. A
//! locker's own [`Clock`](quorumlock_watchdog::Clock) may be ahead of them after it saw that they
//! missed time.

use std::time::Duration;

use quorumlock_protocol::Instant;
use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const MONO: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MONO: ClockId = ClockId::Monotonic;

/// The clock that the judges use, in nanoseconds.
pub(crate) fn mono_ns() -> u64 {
    nanos(MONO)
}

/// An instant as the judges use it: all instants of a history come from one clock.
pub(crate) fn instant(mono_ns: u64) -> Instant {
    Instant::NEVER + Duration::from_nanos(mono_ns)
}

/// The nanoseconds of an [`instant`].
pub(crate) fn nanos_of(instant: Instant) -> u64 {
    u64::try_from(instant.since(Instant::NEVER).as_nanos()).unwrap_or(u64::MAX)
}

/// Wall-clock time in nanoseconds since 1970. For people.
pub(crate) fn wall_ns() -> u64 {
    nanos(ClockId::Realtime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
