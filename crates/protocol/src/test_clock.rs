//! A clock for tests of rules that take `now` as an argument.

use std::cell::Cell;
use std::time::Duration;

use crate::Instant;

/// Stands still until [`Clock::advance`] moves it.
#[derive(Debug)]
pub(crate) struct Clock(Cell<Instant>);

impl Clock {
    /// A day after [`Instant::NEVER`], so that "an hour ago" exists.
    pub(crate) fn manual() -> Self {
        Self(Cell::new(Instant::NEVER + Duration::from_secs(86_400)))
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.get()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + by);
    }
}
