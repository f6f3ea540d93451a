#[cfg(feature = "tokio-util")]
use std::sync::OnceLock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{Instant, LeaseTiming, LossReason};
use tokio::sync::Notify;
#[cfg(feature = "tokio-util")]
use tokio_util::sync::CancellationToken;

use crate::Clock;

/// Whether one lease is valid, until when, and a signal for its end.
///
/// Answers are always computed from the clock at the time of the call; the signal is a convenience
/// (SAFETY.md G5).
#[derive(Debug)]
pub struct LeaseState {
    clock: Clock,
    state: Mutex<State>,
    /// Notified when the lease ends, and when its renewals begin to fail.
    changed: Notify,
    #[cfg(feature = "tokio-util")]
    token: OnceLock<CancellationToken>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    timing: LeaseTiming,
    /// The furthest end that any caller can have been told.
    furthest_promised: Instant,
    loss: Option<LossReason>,
    /// When a message said that somebody released it by force.
    forced: Option<Instant>,
    /// How many renewals it still calls for.
    forced_asks: u32,
    /// How many renewals were sent since the last one that was confirmed.
    unconfirmed: u32,
}

/// With this many unconfirmed renewals a lease is at risk. The watchdog sends one each thirtieth of
/// the lease, so it is a sixth of the lease since the first of them: an outage, not a slow answer.
const MAX_UNCONFIRMED: u32 = 6;

/// How often the nodes are asked after a message about a forced release. The first noes of a quorum are
/// reported before the others come, and the release may not have reached all nodes yet.
const FORCED_ASKS: u32 = 3;

impl LeaseState {
    /// A lease that is valid until `terms.until`, unless it is renewed.
    pub fn new(clock: Clock, timing: LeaseTiming) -> Self {
        let furthest_promised = timing.until;
        let state = State {
            timing,
            furthest_promised,
            loss: None,
            forced: None,
            forced_asks: 0,
            unconfirmed: 0,
        };
        Self {
            clock,
            state: Mutex::new(state),
            changed: Notify::new(),
            #[cfg(feature = "tokio-util")]
            token: OnceLock::new(),
        }
    }

    /// How long the lease surely stays valid from now on if it is not renewed; zero once it is
    /// lost.
    pub fn valid_for(&self) -> Duration {
        let now = self.clock.now();
        match self.settle(now) {
            State { timing, loss: None, .. } => timing.until.since(now),
            State { loss: Some(_), .. } => Duration::ZERO,
        }
    }

    /// The timing of the lease, as far as it is known now.
    pub fn timing(&self) -> LeaseTiming {
        self.state().timing
    }

    /// Until when the lease is valid, or was, if it is not renewed.
    pub fn until(&self) -> Instant {
        self.timing().until
    }

    /// The furthest instant until which the lease was ever said to be valid: a caller that looked
    /// before the loss may rely on the lease until then.
    pub fn furthest_promised(&self) -> Instant {
        self.state().furthest_promised
    }

    /// Why the lease ended, if its end was noticed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.state().loss
    }

    /// Checks whether the lease is valid now.
    ///
    /// # Errors
    /// The [`LossReason`], which never changes.
    pub fn check(&self) -> Result<(), LossReason> {
        self.check_at(self.clock.now())
    }

    /// Checks whether the lease is valid at `now`, which must have been read just before.
    ///
    /// # Errors
    /// As [`LeaseState::check`].
    pub fn check_at(&self, now: Instant) -> Result<(), LossReason> {
        self.settle(now).loss.map_or(Ok(()), Err)
    }

    /// Ends the lease as released, for a successor that is valid until the returned instant.
    ///
    /// # Errors
    /// The [`LossReason`] if the lease is not valid at `now`.
    pub(crate) fn hand_off(&self, now: Instant) -> Result<Instant, LossReason> {
        self.check_at(now)?;
        match self.end(LossReason::Released) {
            LossReason::Released => Ok(self.until()),
            loss => Err(loss),
        }
    }

    /// Moves the end of the lease, forward or (after a definite no of a node) backward.
    ///
    /// # Errors
    /// The [`LossReason`] if the lease had already ended: a late renewal does not make it valid
    /// again.
    pub fn renew(&self, until: Instant) -> Result<(), LossReason> {
        let now = self.clock.now();
        self.settle(now);
        {
            let mut state = self.state();
            if let Some(loss) = state.loss {
                return Err(loss);
            }
            if until > state.timing.until {
                state.unconfirmed = 0;
            }
            state.timing.until = until;
            state.furthest_promised = state.furthest_promised.max(until);
        }
        self.settle(now).loss.map_or(Ok(()), Err)
    }

    /// Notes that the watchdog has sent a renewal.
    pub(crate) fn renewal_sent(&self) {
        let at_risk = {
            let mut state = self.state();
            state.unconfirmed = state.unconfirmed.saturating_add(1);
            state.forced_asks = state.forced_asks.saturating_sub(1);
            state.unconfirmed == MAX_UNCONFIRMED
        };
        if at_risk {
            self.changed.notify_waiters();
        }
    }

    /// Notes that a message says that somebody released the lease by force. It ends nothing: anybody may
    /// have sent it. False if the lease has ended.
    pub(crate) fn hear_forced(&self, now: Instant) -> bool {
        let mut state = self.state();
        let valid = state.loss.is_none();
        if valid {
            (state.forced, state.forced_asks) = (Some(now), FORCED_ASKS);
        }
        valid
    }

    /// Whether such a message calls for a renewal.
    pub(crate) fn must_ask(&self) -> bool {
        self.state().forced_asks > 0
    }

    /// Whether the lease is valid, and none of the watchdog's last 6 renewals is confirmed.
    pub fn is_at_risk(&self) -> bool {
        let state = self.settle(self.clock.now());
        state.loss.is_none() && state.unconfirmed >= MAX_UNCONFIRMED
    }

    /// Waits until the lease is at risk, or has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn at_risk(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let left = self.valid_for();
            if left.is_zero() || self.is_at_risk() {
                return;
            }
            tokio::select! {
                biased;
                () = &mut changed => {}
                () = tokio::time::sleep(left.min(MAX_SLEEP)) => {}
            }
        }
    }

    /// A token that is cancelled when the lease ends, for any reason; by the watchdog's thread, if
    /// no other caller notices the end first.
    #[cfg(feature = "tokio-util")]
    pub fn cancellation_token(&self) -> CancellationToken {
        // A child: a caller that cancels it cancels no other caller's token.
        let token = self.token.get_or_init(CancellationToken::new).child_token();
        if self.check().is_err() {
            self.notify_end();
        }
        token
    }

    /// Ends the lease for `loss`, unless it had already ended; returns why it ended.
    pub fn end(&self, loss: LossReason) -> LossReason {
        let now = self.clock.now();
        let (before, loss) = {
            let mut state = self.state();
            let loss = match loss {
                LossReason::Gone if state.is_said_forced(now) => LossReason::Forced,
                loss => loss,
            };
            let before = state.loss;
            state.loss.get_or_insert(loss);
            (before, loss)
        };
        before.unwrap_or_else(|| {
            self.notify_end();
            loss
        })
    }

    /// Waits until the lease is no longer valid, and returns why; at once if it is not valid now.
    ///
    /// Resolves no later than the window shuts, if the runtime polls it in time.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future loses nothing.
    pub async fn lost(&self) -> LossReason {
        self.lost_before_expiry(Duration::ZERO).await
    }

    /// Like [`LeaseState::lost`], but resolves `margin` before the window shuts. It then returns
    /// the reason for which the lease will end, without ending it.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost_before_expiry(&self, margin: Duration) -> LossReason {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let left = match self.check() {
                Err(loss) => return loss,
                Ok(()) => self.valid_for().saturating_sub(margin),
            };
            if left.is_zero() {
                return self.timing().loss_at_end();
            }
            tokio::select! {
                biased;
                () = &mut changed => {}
                () = tokio::time::sleep(left.min(MAX_SLEEP)) => {}
            }
        }
    }

    /// Ends the lease if the window is shut at `now`, and returns the state afterwards.
    fn settle(&self, now: Instant) -> State {
        let (state, first) = {
            let mut state = self.state();
            let first = state.loss.is_none() && now >= state.timing.until;
            if first {
                state.loss = Some(state.timing.loss_at_end());
            }
            (*state, first)
        };
        if first {
            self.notify_end();
        }
        state
    }

    fn notify_end(&self) {
        #[cfg(feature = "tokio-util")]
        if let Some(token) = self.token.get() {
            token.cancel();
        }
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether such a message came since about the last regular renewal.
    fn is_said_forced(&self, now: Instant) -> bool {
        self.forced.is_some_and(|heard| now.since(heard) <= self.timing.lease / 3)
    }
}

/// Timers do not count suspend, and our clock does: this bounds how late after a resume the loss is
/// reported.
const MAX_SLEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timing(clock: &Clock, hold_until: Option<Instant>) -> LeaseTiming {
        LeaseTiming { lease: SECOND, until: clock.now() + SECOND, hold_until }
    }

    fn lease_state(clock: &Clock) -> LeaseState {
        LeaseState::new(clock.clone(), timing(clock, None))
    }

    #[test]
    fn it_ends_exactly_when_the_window_shuts() {
        // The clock moves and no timer fires, as after a suspend (SAFETY.md A2, G5, H4).
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        clock.advance(SECOND - Duration::from_nanos(1));
        assert_eq!(lease.check(), Ok(()));
        assert_eq!(lease.valid_for(), Duration::from_nanos(1));
        clock.advance(Duration::from_nanos(1));
        assert_eq!(lease.check(), Err(LossReason::WindowShut));
        assert_eq!(lease.valid_for(), Duration::ZERO);
    }

    #[test]
    fn a_late_renewal_heals_nothing() {
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        clock.advance(SECOND);
        // No caller looked in between: the renewal itself must notice the end.
        assert_eq!(lease.renew(clock.now() + SECOND), Err(LossReason::WindowShut));
        assert_eq!(lease.check(), Err(LossReason::WindowShut));
    }

    #[test]
    fn a_hold_that_reached_its_limit_says_so() {
        let clock = Clock::manual();
        let limit = clock.now() + SECOND + SECOND / 20;
        let lease = LeaseState::new(clock.clone(), timing(&clock, Some(limit)));
        clock.advance(SECOND);
        assert_eq!(lease.check(), Err(LossReason::HoldLimit));
    }

    #[test]
    fn only_what_stands_is_handed_on_and_then_it_is_released() {
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        let until = lease.until();
        assert_eq!(lease.hand_off(clock.now()), Ok(until));
        assert_eq!(lease.check(), Err(LossReason::Released));
        assert_eq!(lease.hand_off(clock.now()), Err(LossReason::Released), "once");
        let late = lease_state(&clock);
        clock.advance(SECOND);
        assert_eq!(late.hand_off(clock.now()), Err(LossReason::WindowShut));
        assert_eq!(late.check(), Err(LossReason::WindowShut), "and it is not released");
    }

    #[test]
    fn the_first_reason_stays() {
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        assert_eq!(lease.end(LossReason::Gone), LossReason::Gone);
        assert_eq!(lease.end(LossReason::Released), LossReason::Gone);
        clock.advance(SECOND * 2);
        assert_eq!(lease.check(), Err(LossReason::Gone));
    }

    #[test]
    fn a_renewal_may_move_the_end_backward_and_even_shut_it() {
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        assert_eq!(lease.renew(clock.now() + SECOND / 2), Ok(()));
        assert_eq!(lease.valid_for(), SECOND / 2);
        assert_eq!(lease.renew(Instant::NEVER), Err(LossReason::WindowShut));
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_that_fail_are_told_before_the_loss_and_a_confirmed_one_ends_the_risk() {
        let clock = Clock::manual();
        let lease = std::sync::Arc::new(lease_state(&clock));
        for _ in 1..MAX_UNCONFIRMED {
            lease.renewal_sent();
        }
        assert!(!lease.is_at_risk(), "slow answers are no outage");
        let told = tokio::spawn({
            let lease = lease.clone();
            async move { lease.at_risk().await }
        });
        tokio::task::yield_now().await;
        assert!(!told.is_finished());
        lease.renewal_sent();
        told.await.expect("no panic");
        assert!(lease.is_at_risk() && lease.check().is_ok(), "a warning, and no loss");
        assert_eq!(lease.renew(lease.until()), Ok(()));
        assert!(lease.is_at_risk(), "the same end as before confirms nothing");
        assert_eq!(lease.renew(lease.until() + SECOND), Ok(()));
        assert!(!lease.is_at_risk());
        lease.end(LossReason::Gone);
        lease.at_risk().await;
        assert!(!lease.is_at_risk(), "lost is more than at risk");
    }

    #[cfg(feature = "tokio-util")]
    #[test]
    fn its_token_is_cancelled_by_every_end_and_by_that_alone() {
        let clock = Clock::manual();
        let lease = lease_state(&clock);
        let (token, other) = (lease.cancellation_token(), lease.cancellation_token());
        other.cancel();
        assert!(!token.is_cancelled(), "callers do not cancel each other's work");
        clock.advance(SECOND);
        assert!(lease.check().is_err() && token.is_cancelled(), "the window has shut");
        assert!(lease.cancellation_token().is_cancelled(), "afterwards from the start");
        let released = lease_state(&clock);
        let token = released.cancellation_token();
        released.end(LossReason::Released);
        assert!(token.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn loss_can_be_awaited_from_several_places() {
        let clock = Clock::manual();
        let lease = std::sync::Arc::new(lease_state(&clock));
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let lease = lease.clone();
                tokio::spawn(async move { lease.lost().await })
            })
            .collect();
        tokio::task::yield_now().await;
        lease.end(LossReason::Gone);
        for waiter in waiters {
            assert_eq!(waiter.await.expect("no panic"), LossReason::Gone);
        }
        assert_eq!(lease.lost().await, LossReason::Gone, "and afterwards at once");
    }
}
