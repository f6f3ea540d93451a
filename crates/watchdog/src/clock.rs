//! The lease clock: it counts suspend, and tests can replace it, because it is a value.
//!
//! This is the only file that reads a clock; `clippy.toml` forbids clock reads in all others.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorumlock_protocol::Instant;

/// A source of [`Instant`]s.
///
/// [`Clock::system`] counts the time in which the machine was suspended; std's `Instant` does not
/// (on Linux it is `CLOCK_MONOTONIC`), so a program on a laptop that slept would take an expired
/// lease for valid. Neither sees the pause of a virtual machine by itself: [`Clock::system`] counts
/// a pause as soon as the wall clock or the hardware counter shows it. A pause may still be
/// invisible to every clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
    Given(Arc<dyn Fn() -> Duration + Send + Sync>, Option<Arc<dyn Fn() -> u64 + Send + Sync>>),
}

/// What a clock without a number of its own shows at first: a day, so that "an hour ago" exists.
const FIRST: Instant = Instant::from_nanos(86_400_000_000_000);

impl Clock {
    /// The operating system's clock that counts suspend (`CLOCK_BOOTTIME` on Linux; SAFETY.md H4),
    /// plus any time that it missed and that `CLOCK_REALTIME` or `CLOCK_MONOTONIC_RAW` shows (H5).
    /// A wall clock that is set forward ends leases early.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`Clock::advance`] moves it: for tests and simulations.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(FIRST.as_nanos()))))
    }

    /// The clock of the tokio runtime on whose threads it is read, which a test can pause (`start_paused`).
    pub fn tokio() -> Self {
        let first = OnceLock::new();
        Self::given(move || {
            #[allow(clippy::disallowed_methods)] // the one place that may
            let now = tokio::time::Instant::now();
            let first = *first.get_or_init(|| now);
            FIRST.since(Instant::NEVER) + now.saturating_duration_since(first)
        })
    }

    /// A clock that shows what `elapsed` returns: for simulated clocks that drift, jump or freeze.
    pub fn given(elapsed: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Source::Given(Arc::new(elapsed), None))
    }

    /// A [given](Clock::given) clock whose wall clock shows what `wall` returns, in microseconds;
    /// other clocks ignore it.
    #[must_use]
    pub fn with_wall(self, wall: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        match self.0 {
            Source::Given(elapsed, _) => Self(Source::Given(elapsed, Some(Arc::new(wall)))),
            other => Self(other),
        }
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(nanos) => Instant::from_nanos(nanos.load(Ordering::SeqCst)),
            Source::Given(elapsed, _) => Instant::NEVER + elapsed(),
        }
    }

    /// The present instant, or an earlier one: time that was missed since the last call of
    /// [`Clock::now`] may not be counted. Use it only for a lease that begins now and is counted
    /// from this instant: it ends early, never late. Costs a third of [`Clock::now`].
    pub fn early(&self) -> Instant {
        match &self.0 {
            Source::System => system_early(),
            _ => self.now(),
        }
    }

    /// The time that it has counted beyond the operating system's clock, since another clock moved ahead: the
    /// wall clock was set forward, or the machine was paused.
    pub fn missed(&self) -> Duration {
        match &self.0 {
            Source::System => system_missed(),
            _ => Duration::ZERO,
        }
    }

    /// Wall-clock time in microseconds since 1970, for proposing fencing tokens; it decides no
    /// lease. Clocks other than the system's count from their own zero.
    pub fn wall_micros(&self) -> u64 {
        match &self.0 {
            Source::System => system_wall_micros(),
            Source::Given(_, Some(wall)) => wall(),
            _ => self.now().as_nanos() / 1_000,
        }
    }

    /// Moves a [manual](Clock::manual) clock forward; other clocks ignore it.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(nanos) = &self.0 {
            nanos.fetch_add((Instant::NEVER + by).as_nanos(), Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Manual(_) => "Manual",
            Self::Given(..) => "Given",
        })
    }
}

/// Wall-clock time in microseconds since 1970.
fn system_wall_micros() -> u64 {
    #[allow(clippy::disallowed_methods)] // the one place that may
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux::{system_early, system_missed, system_now};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use nix::time::ClockId;

    use super::{Duration, Instant, read};
    use crate::missed_time::{ClockSample, MissedTime};

    static MISSED_TIME: MissedTime = MissedTime::new();

    pub(super) fn system_now() -> Instant {
        Instant::from_nanos(MISSED_TIME.elapsed(|| ClockSample {
            base: nanos(ClockId::CLOCK_BOOTTIME),
            others: [nanos(ClockId::CLOCK_REALTIME), nanos(ClockId::CLOCK_MONOTONIC_RAW)],
        }))
    }

    pub(super) fn system_early() -> Instant {
        Instant::from_nanos(MISSED_TIME.elapsed_early(nanos(ClockId::CLOCK_BOOTTIME)))
    }

    pub(super) fn system_missed() -> Duration {
        MISSED_TIME.missed()
    }

    fn nanos(clock: ClockId) -> u64 {
        read(clock).as_nanos()
    }
}

/// On other Unix systems, the monotonic clock; docs/SAFETY.md A2 says what that leaves open.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn system_now() -> Instant {
    read(nix::time::ClockId::CLOCK_MONOTONIC)
}

/// On Windows, std's monotonic clock, which shows no number: the time since its first use.
#[cfg(not(unix))]
fn system_now() -> Instant {
    static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods)] // the one place that may
    let now = std::time::Instant::now();
    FIRST + now.saturating_duration_since(*BEGAN.get_or_init(|| now))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use system_now as system_early;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn system_missed() -> Duration {
    Duration::ZERO
}

#[cfg(unix)]
fn read(clock: nix::time::ClockId) -> Instant {
    let time = clock.now().expect("each system that this is built for has the clock");
    let secs = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
    Instant::from_nanos(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_goes_forward() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert!(first > Instant::NEVER);
    }

    #[test]
    fn a_manual_clock_moves_only_when_told_and_for_all_its_clones() {
        let clock = Clock::manual();
        let copy = clock.clone();
        let before = copy.now();
        clock.advance(Duration::from_secs(3));
        assert_eq!(copy.now().since(before), Duration::from_secs(3));
    }

    #[test]
    fn differences_and_sums_saturate() {
        let now = Clock::manual().now();
        assert_eq!(now.since(now + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(Instant::NEVER - Duration::from_secs(1), Instant::NEVER);
        assert!(now + Duration::MAX > now);
    }
}
