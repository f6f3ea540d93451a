use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The time at which a future that has used up its polls is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// Right after the last poll: the event that the future waits for has not come.
    AtOnce,
    /// At its next wake-up: the event has come, but the future never takes it.
    OnWake,
}

/// A future that is polled a given number of times and then dropped: cancellation at a chosen
/// await.
///
/// Resolves to `None` if the inner future was dropped before its end.
pub struct CountPolls<F> {
    inner: Option<Pin<Box<F>>>,
    left: usize,
    drops: Drops,
}

impl<F: Future> CountPolls<F> {
    /// Polls `inner` at most `polls` times.
    pub fn new(
        inner: impl IntoFuture<IntoFuture = F, Output = F::Output>,
        polls: usize,
        drops: Drops,
    ) -> Self {
        Self { inner: Some(Box::pin(inner.into_future())), left: polls, drops }
    }
}

impl<F: Future> Future for CountPolls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left > 0 {
            self.left -= 1;
            if let Some(inner) = &mut self.inner
                && let Poll::Ready(output) = inner.as_mut().poll(cx)
            {
                return Poll::Ready(Some(output));
            }
            if self.left > 0 || self.drops == Drops::OnWake {
                return Poll::Pending;
            }
        }
        self.inner = None;
        Poll::Ready(None)
    }
}

impl<F> fmt::Debug for CountPolls<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polls").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn three_awaits() -> &'static str {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        "done"
    }

    #[tokio::test]
    async fn a_future_with_three_awaits_needs_four_polls() {
        for drops in [Drops::AtOnce, Drops::OnWake] {
            for polls in 0..4 {
                assert_eq!(CountPolls::new(three_awaits(), polls, drops).await, None, "{polls}");
            }
            assert_eq!(CountPolls::new(three_awaits(), 4, drops).await, Some("done"));
        }
    }

    #[tokio::test]
    async fn what_is_out_of_polls_is_dropped_before_we_hear_of_it() {
        let (alive, mut dropped) = tokio::sync::oneshot::channel::<()>();
        let holds = async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        };
        let mut cancelled = Box::pin(CountPolls::new(holds, 1, Drops::AtOnce));
        assert_eq!(cancelled.as_mut().await, None);
        assert!(
            dropped
                .try_recv()
                .is_err_and(|e| e == tokio::sync::oneshot::error::TryRecvError::Closed)
        );
    }
}
