use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant of a lease clock, in nanoseconds. Instants of different clocks must not be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Before every instant that a clock gives: it means that nothing is known to hold.
    pub const NEVER: Self = Self(0);

    /// The instant this many nanoseconds after [`Instant::NEVER`].
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The number of nanoseconds since [`Instant::NEVER`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, zero if that is negative.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(rhs)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

fn nanos_of(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
