use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Answer, NodeProblem, NodeReport, Silence};

/// Takes the answers of several requests; `from` says which one answered.
pub trait Collect<T>: Send + Sync {
    /// An answer came in. Runs on the driver's task: it must not block.
    fn collect(&self, from: usize, answer: T);
}

/// An answer that can be missing.
pub trait MaybeMissing {
    /// The answer to a request that was dropped on the way: it may have happened.
    fn missing() -> Self;
}

impl<T> MaybeMissing for Answer<T> {
    fn missing() -> Self {
        Self::Silent(Silence::Maybe(NodeReport::new(
            "node",
            NodeProblem::Broken("the request was dropped".into()),
        )))
    }
}

impl<T> MaybeMissing for Vec<T> {
    fn missing() -> Self {
        Self::new()
    }
}

/// Where one answer goes. Exactly one does: if this is dropped unanswered, "missing" is sent.
pub struct ReplyTo<T: MaybeMissing> {
    to: Option<Arc<dyn Collect<T>>>,
    from: usize,
}

impl<T: MaybeMissing> ReplyTo<T> {
    /// Answers go to `to`, as coming from `from`.
    pub fn new(to: Arc<dyn Collect<T>>, from: usize) -> Self {
        Self { to: Some(to), from }
    }

    /// For requests whose answer interests nobody.
    pub fn nobody() -> Self {
        Self { to: None, from: 0 }
    }

    /// Answers.
    pub fn send(mut self, answer: T) {
        if let Some(to) = self.to.take() {
            to.collect(self.from, answer);
        }
    }
}

impl<T: MaybeMissing> Drop for ReplyTo<T> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.collect(self.from, T::missing());
        }
    }
}

impl<T: MaybeMissing> fmt::Debug for ReplyTo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("from", &self.from).finish_non_exhaustive()
    }
}

/// One answer, awaited: a future and the [`Collect`]or that completes it.
#[derive(Debug)]
pub struct Slot<T>(Arc<SlotState<T>>);

#[derive(Debug)]
struct SlotState<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T: MaybeMissing + Send + 'static> Slot<T> {
    /// An empty slot and the one place that fills it.
    pub fn new() -> (Self, ReplyTo<T>) {
        let state = Arc::new(SlotState(Mutex::new((None, None))));
        (Self(state.clone()), ReplyTo::new(state, 0))
    }
}

impl<T: Send> Collect<T> for SlotState<T> {
    fn collect(&self, _from: usize, answer: T) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = Some(answer);
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Slot<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.0.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
