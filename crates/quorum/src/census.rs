use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use quorumlock_core::{Collect, MaybeMissing, ReplyTo};

type Enough<T> = dyn Fn(&[Option<T>]) -> bool + Send + Sync;
type Each<T> = dyn Fn(usize, &T) + Send + Sync;

/// The same question to all nodes: collects the answers until there are enough.
pub(crate) struct Census<T> {
    enough: Box<Enough<T>>,
    /// Sees every answer, also those that come after the decision.
    each: Box<Each<T>>,
    state: Mutex<State<T>>,
}

struct State<T> {
    answers: Vec<Option<T>>,
    waker: Option<Waker>,
}

impl<T: MaybeMissing + Send + 'static> Census<T> {
    pub(crate) fn new(
        nodes: usize,
        enough: impl Fn(&[Option<T>]) -> bool + Send + Sync + 'static,
        each: impl Fn(usize, &T) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let answers = (0..nodes).map(|_| None).collect();
        Arc::new(Self {
            enough: Box::new(enough),
            each: Box::new(each),
            state: Mutex::new(State { answers, waker: None }),
        })
    }

    pub(crate) fn reply_to(self: &Arc<Self>, node: usize) -> ReplyTo<T> {
        ReplyTo::new(self.clone(), node)
    }

    /// The answers, when there are enough, or when all are in, or after `within`.
    pub(crate) async fn answers(self: Arc<Self>, within: Duration) -> Vec<Option<T>> {
        let enough = poll_fn(|cx| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.answers.iter().all(Option::is_some) || (self.enough)(&state.answers) {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        // Late is as good as never: what is there then is what counts.
        let _ = tokio::time::timeout(within, enough).await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.answers.iter_mut().map(Option::take).collect()
    }
}

impl<T: Send> Collect<T> for Census<T> {
    fn collect(&self, from: usize, answer: T) {
        (self.each)(from, &answer);
        let waker = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.answers[from] = Some(answer);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
