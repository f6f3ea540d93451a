//! Pure: when a lease is renewed, and when it ends.

use std::time::Duration;

use crate::{Instant, LossReason};

const RETRIES_PER_LEASE: u32 = 30;

/// The timing of one lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTiming {
    /// How long the lessor keeps the lease without a renewal.
    pub lease: Duration,
    /// Until when the lease is valid if no renewal is confirmed.
    pub until: Instant,
    /// The hold limit: the instant after which the lease must not be renewed, if there is one.
    pub hold_until: Option<Instant>,
}

impl LeaseTiming {
    /// A third of the lease after the last confirmed request; that request was sent (nearly) a
    /// lease before `until`. Soon, if that instant has passed.
    pub fn next_renewal(&self, now: Instant) -> Instant {
        let third = self.until - self.lease * 2 / 3;
        self.bounded(if third > now { third } else { now + self.again(now, 10) })
    }

    /// A thirtieth of the lease, or a `part`-th of its remaining time if that is shorter. At least a
    /// tenth of that thirtieth.
    pub fn again(&self, now: Instant, part: u32) -> Duration {
        let most = self.lease / RETRIES_PER_LEASE;
        most.min(self.until.since(now) / part).max(most / 10)
    }

    /// The lease must be looked at again when the window shuts or the hold limit comes, whichever
    /// is first.
    pub fn bounded(&self, at: Instant) -> Instant {
        at.min(self.until).min(self.hold_until.unwrap_or(self.until))
    }

    /// Whether, and why, a lease with this timing has ended at `now`.
    pub fn ended(&self, now: Instant) -> Option<LossReason> {
        if self.hold_until.is_some_and(|limit| limit <= now) {
            return Some(LossReason::HoldLimit);
        }
        (self.until <= now).then_some(self.loss_at_end())
    }

    /// Why a lease with this timing ends if no renewal is confirmed any more.
    pub fn loss_at_end(&self) -> LossReason {
        if self.reaches_limit() { LossReason::HoldLimit } else { LossReason::WindowShut }
    }

    /// For how long to renew at `now`, never past the hold limit; `None` if a renewal gains
    /// nothing.
    pub fn renewable(&self, now: Instant) -> Option<Duration> {
        (!self.reaches_limit()).then(|| self.longest(now))
    }

    /// The longest lease to ask for at `now`: the whole lease, but never past the hold limit.
    pub fn longest(&self, now: Instant) -> Duration {
        self.hold_until.map_or(self.lease, |limit| self.lease.min(limit.since(now)))
    }

    /// Whether the lease already lasts to its hold limit, up to a tenth of the lease as allowance
    /// for drift.
    pub fn reaches_limit(&self) -> bool {
        self.hold_until.is_some_and(|limit| limit.since(self.until) <= self.lease / 10)
    }
}
