use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::schedule::Terms;
use crate::{Clock, Instant};

/// Why a lease no longer stands. Final: a lost lease never heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was confirmed in time: the window shut on our own clock.
    WindowShut,
    /// The lessor said definitely that it no longer holds our nonce.
    Gone,
    /// `hold_at_most` was reached.
    HoldLimit,
    /// Its own holder gave it back.
    Released,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WindowShut => "no renewal was confirmed before the lease ended",
            Self::Gone => "the nodes no longer hold it (expired, deleted, evicted or taken over)",
            Self::HoldLimit => "its hold_at_most limit was reached",
            Self::Released => "it was released",
        })
    }
}

/// Whether one lease stands, until when, and a signal for the moment it does not.
///
/// Answers are always computed from the clock at the time of the call; the signal is a convenience
/// (SAFETY.md G5).
#[derive(Debug)]
pub struct Standing {
    clock: Clock,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    terms: Terms,
    /// The furthest end that anybody can have been told.
    told: Instant,
    loss: Option<Loss>,
}

impl Standing {
    /// A lease that stands until `terms.until`, unless it is renewed.
    pub fn new(clock: Clock, terms: Terms) -> Self {
        let state = Mutex::new(State { terms, told: terms.until, loss: None });
        Self { clock, state, ended: Notify::new() }
    }

    /// How long it surely stands from now on, if nobody renews it; zero once lost.
    pub fn valid_for(&self) -> Duration {
        let now = self.clock.now();
        match self.settle(now) {
            State { terms, loss: None, .. } => terms.until.since(now),
            State { loss: Some(_), .. } => Duration::ZERO,
        }
    }

    /// How it is to be kept, as far as is known now.
    pub fn terms(&self) -> Terms {
        self.state().terms
    }

    /// Until when it stands, or stood, if nobody renews it.
    pub fn until(&self) -> Instant {
        self.terms().until
    }

    /// The furthest instant until which it was ever said to stand: until then somebody who looked
    /// before it was lost may rely on it.
    pub fn told(&self) -> Instant {
        self.state().told
    }

    /// Why it ended, if anybody has noticed.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.state().loss
    }

    /// Does it stand at this instant?
    ///
    /// # Errors
    /// The [`Loss`], the same one for ever after.
    pub fn check(&self) -> Result<(), Loss> {
        self.check_at(self.clock.now())
    }

    /// Does it stand at `now`, which was read just before?
    ///
    /// # Errors
    /// As [`Standing::check`].
    pub fn check_at(&self, now: Instant) -> Result<(), Loss> {
        self.settle(now).loss.map_or(Ok(()), Err)
    }

    /// Ends it as released, for a successor that stands until the instant returned.
    ///
    /// # Errors
    /// The [`Loss`] if it no longer stands at `now`.
    pub(crate) fn pass(&self, now: Instant) -> Result<Instant, Loss> {
        self.check_at(now)?;
        match self.end(Loss::Released) {
            Loss::Released => Ok(self.until()),
            loss => Err(loss),
        }
    }

    /// Moves the end, forward or (after a definite no of a node) backward.
    ///
    /// # Errors
    /// The [`Loss`] if it had already ended: a renewal that comes too late heals nothing.
    pub fn renew(&self, until: Instant) -> Result<(), Loss> {
        let now = self.clock.now();
        self.settle(now);
        {
            let mut state = self.state();
            if let Some(loss) = state.loss {
                return Err(loss);
            }
            state.terms.until = until;
            state.told = state.told.max(until);
        }
        self.settle(now).loss.map_or(Ok(()), Err)
    }

    /// Ends it for `loss`, unless it had already ended; returns why it ended.
    pub fn end(&self, loss: Loss) -> Loss {
        let before = {
            let mut state = self.state();
            let before = state.loss;
            state.loss.get_or_insert(loss);
            before
        };
        before.unwrap_or_else(|| {
            self.ended.notify_waiters();
            loss
        })
    }

    /// Waits until the lease no longer stands, and says why; at once if it does not stand now.
    ///
    /// Resolves no later than the window shuts, given that the runtime polls it.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost when the future is dropped.
    pub async fn lost(&self) -> Loss {
        self.lost_within(Duration::ZERO).await
    }

    /// As [`Standing::lost`], but resolves `margin` before the window shuts, with the loss that it
    /// then will be, without ending the lease by itself.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost_within(&self, margin: Duration) -> Loss {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let left = match self.check() {
                Err(loss) => return loss,
                Ok(()) => self.valid_for().saturating_sub(margin),
            };
            if left.is_zero() {
                return self.terms().loss_at_end();
            }
            tokio::select! {
                biased;
                () = &mut ended => {}
                () = tokio::time::sleep(left.min(LONGEST_SLEEP)) => {}
            }
        }
    }

    /// Ends the lease if the window is shut at `now`, and gives the state as it is then.
    fn settle(&self, now: Instant) -> State {
        let (state, first) = {
            let mut state = self.state();
            let first = state.loss.is_none() && now >= state.terms.until;
            if first {
                state.loss = Some(state.terms.loss_at_end());
            }
            (*state, first)
        };
        if first {
            self.ended.notify_waiters();
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Timers do not count suspend, our clock does: after a resume the loss is told this soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn terms(clock: &Clock, hold_until: Option<Instant>) -> Terms {
        Terms { lease: SECOND, until: clock.now() + SECOND, hold_until }
    }

    fn standing(clock: &Clock) -> Standing {
        Standing::new(clock.clone(), terms(clock, None))
    }

    #[test]
    fn it_ends_exactly_when_the_window_shuts() {
        // The clock moves and no timer fires, as after a suspend (SAFETY.md A2, G5, H4).
        let clock = Clock::manual();
        let lease = standing(&clock);
        clock.advance(SECOND - Duration::from_nanos(1));
        assert_eq!(lease.check(), Ok(()));
        assert_eq!(lease.valid_for(), Duration::from_nanos(1));
        clock.advance(Duration::from_nanos(1));
        assert_eq!(lease.check(), Err(Loss::WindowShut));
        assert_eq!(lease.valid_for(), Duration::ZERO);
    }

    #[test]
    fn a_late_renewal_heals_nothing() {
        let clock = Clock::manual();
        let lease = standing(&clock);
        clock.advance(SECOND);
        // Nobody looked in between: the renewal itself must notice.
        assert_eq!(lease.renew(clock.now() + SECOND), Err(Loss::WindowShut));
        assert_eq!(lease.check(), Err(Loss::WindowShut));
    }

    #[test]
    fn a_hold_that_reached_its_limit_says_so() {
        let clock = Clock::manual();
        let limit = clock.now() + SECOND + SECOND / 20;
        let lease = Standing::new(clock.clone(), terms(&clock, Some(limit)));
        clock.advance(SECOND);
        assert_eq!(lease.check(), Err(Loss::HoldLimit));
    }

    #[test]
    fn only_what_stands_is_handed_on_and_then_it_is_released() {
        let clock = Clock::manual();
        let lease = standing(&clock);
        let until = lease.until();
        assert_eq!(lease.pass(clock.now()), Ok(until));
        assert_eq!(lease.check(), Err(Loss::Released));
        assert_eq!(lease.pass(clock.now()), Err(Loss::Released), "once");
        let late = standing(&clock);
        clock.advance(SECOND);
        assert_eq!(late.pass(clock.now()), Err(Loss::WindowShut));
        assert_eq!(late.check(), Err(Loss::WindowShut), "and it is not released");
    }

    #[test]
    fn the_first_reason_stays() {
        let clock = Clock::manual();
        let lease = standing(&clock);
        assert_eq!(lease.end(Loss::Gone), Loss::Gone);
        assert_eq!(lease.end(Loss::Released), Loss::Gone);
        clock.advance(SECOND * 2);
        assert_eq!(lease.check(), Err(Loss::Gone));
    }

    #[test]
    fn a_renewal_may_move_the_end_backward_and_even_shut_it() {
        let clock = Clock::manual();
        let lease = standing(&clock);
        assert_eq!(lease.renew(clock.now() + SECOND / 2), Ok(()));
        assert_eq!(lease.valid_for(), SECOND / 2);
        assert_eq!(lease.renew(Instant::NEVER), Err(Loss::WindowShut));
    }

    #[tokio::test(start_paused = true)]
    async fn loss_can_be_awaited_from_several_places() {
        let clock = Clock::manual();
        let lease = std::sync::Arc::new(standing(&clock));
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let lease = lease.clone();
                tokio::spawn(async move { lease.lost().await })
            })
            .collect();
        tokio::task::yield_now().await;
        lease.end(Loss::Gone);
        for waiter in waiters {
            assert_eq!(waiter.await.expect("no panic"), Loss::Gone);
        }
        assert_eq!(lease.lost().await, Loss::Gone, "and afterwards at once");
    }
}
