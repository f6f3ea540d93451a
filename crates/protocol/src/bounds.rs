//! The bounds of durations.

use std::time::Duration;

use crate::ConfigError;

/// The least and the greatest value of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// The option.
    pub what: &'static str,
    /// The least value.
    pub min: Duration,
    /// The greatest value.
    pub max: Max,
}

/// The greatest value of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Max {
    /// Always the same.
    Is(Duration),
    /// That of another option.
    Option(&'static str),
}

/// Of [`Settings::lease`](crate::Settings), and of the lease of one request.
pub const LEASE: Bounds = Bounds::new("lease", SHORTEST_LEASE, Max::Option("max_lease"));
/// Of [`Settings::max_lease`](crate::Settings).
pub const MAX_LEASE: Bounds = Bounds::new("max_lease", SHORTEST_LEASE, Max::Is(days(365)));
/// Of [`Settings::takeover_delay`](crate::Settings).
pub const TAKEOVER_DELAY: Bounds =
    Bounds::new("takeover_delay", Duration::ZERO, Max::Option("max_lease"));
/// Of [`Settings::answer_timeout`](crate::Settings).
pub const ANSWER_TIMEOUT: Bounds = Bounds::new("answer_timeout", MS, Max::Is(MINUTE));
/// Of [`Settings::replica_timeout`](crate::Settings).
pub const REPLICA_TIMEOUT: Bounds =
    Bounds::new("replica_timeout", MS, Max::Option("answer_timeout"));
/// Of [`Settings::connect_timeout`](crate::Settings).
pub const CONNECT_TIMEOUT: Bounds = Bounds::new("connect_timeout", MS, Max::Is(MINUTE));
/// Of the clock bound of strict admission.
pub const CLOCK_BOUND: Bounds =
    Bounds::new("clock_bound", Duration::from_millis(10), Max::Is(MINUTE));
/// Of [`Settings::long_hold`](crate::Settings).
pub const LONG_HOLD: Bounds = Bounds::new("long_hold", SHORTEST_LEASE, Max::Is(LONGEST_HOLD));
/// Of the limit of a hold.
pub const HOLD_AT_MOST: Bounds = Bounds::new("hold_at_most", SHORTEST_LEASE, Max::Is(LONGEST_HOLD));
/// Of the least time of a hold. Without a limit of the hold, its maximum is [`LONGEST_HOLD`].
pub const HOLD_AT_LEAST: Bounds = Bounds::new("hold_at_least", MS, Max::Option("hold_at_most"));
/// Of the limit of a wait.
pub const WAIT: Bounds = Bounds::new("wait", Duration::ZERO, Max::Is(days(3_650)));

/// The longest hold with a limit.
pub const LONGEST_HOLD: Duration = days(3_650);

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
/// A shorter lease leaves nothing after the 2 ms for granularity and a round trip.
const SHORTEST_LEASE: Duration = Duration::from_millis(10);

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

impl Bounds {
    const fn new(what: &'static str, min: Duration, max: Max) -> Self {
        Self { what, min, max }
    }

    /// Checks a value whose maximum is fixed.
    ///
    /// # Errors
    /// [`ConfigError::BadDuration`] with the value and the bounds.
    pub fn check(&self, value: Duration) -> Result<(), ConfigError> {
        self.check_to(Duration::MAX, value)
    }

    /// Checks a value whose maximum is the value `of_option` of another option.
    ///
    /// # Errors
    /// [`ConfigError::BadDuration`] with the value and the bounds.
    pub fn check_to(&self, of_option: Duration, value: Duration) -> Result<(), ConfigError> {
        let Self { what, min, max } = *self;
        let (max, max_option) = match max {
            Max::Is(max) => (max, None),
            Max::Option(option) => (of_option, Some(option)),
        };
        match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::BadDuration { what, value, min, max, max_option }),
        }
    }
}
