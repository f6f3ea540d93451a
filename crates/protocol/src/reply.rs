use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Collects the answers of several requests; `from` says which of them is answered.
pub trait ReplySink<T>: Send + Sync {
    /// An answer arrived. Runs on the connection driver's task, so it must not block.
    fn collect(&self, from: usize, answer: T);
}

/// A type of answer that has a value for "missing".
pub trait OnDropped {
    /// The answer to a request that was dropped on the way: it may have been carried out.
    fn missing() -> Self;
}

impl<T> OnDropped for Vec<T> {
    fn missing() -> Self {
        Self::new()
    }
}

/// Where one answer goes. Exactly one answer is sent: if this is dropped unanswered, it sends
/// "missing".
pub struct Responder<T: OnDropped> {
    to: Option<Arc<dyn ReplySink<T>>>,
    from: usize,
}

impl<T: OnDropped> Responder<T> {
    /// A responder that sends the answer to `to`, as the answer of `from`.
    pub fn new(to: Arc<dyn ReplySink<T>>, from: usize) -> Self {
        Self { to: Some(to), from }
    }

    /// A responder that discards the answer.
    pub fn nobody() -> Self {
        Self { to: None, from: 0 }
    }

    /// Sends the answer.
    pub fn send(mut self, answer: T) {
        if let Some(to) = self.to.take() {
            to.collect(self.from, answer);
        }
    }
}

impl<T: OnDropped> Drop for Responder<T> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.collect(self.from, T::missing());
        }
    }
}

impl<T: OnDropped> fmt::Debug for Responder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("from", &self.from).finish_non_exhaustive()
    }
}

/// A future of one answer, which a [`Responder`] completes.
#[derive(Debug)]
pub struct ReplyFuture<T>(Arc<ReplyState<T>>);

#[derive(Debug)]
struct ReplyState<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T: OnDropped + Send + 'static> ReplyFuture<T> {
    /// A future, and the one responder that completes it.
    pub fn new() -> (Self, Responder<T>) {
        let state = Arc::new(ReplyState(Mutex::new((None, None))));
        (Self(state.clone()), Responder::new(state, 0))
    }
}

impl<T: Send> ReplySink<T> for ReplyState<T> {
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

impl<T> Future for ReplyFuture<T> {
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
