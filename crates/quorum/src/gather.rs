use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use quorumlock_protocol::{OnDropped, ReplySink, Responder};

/// Collects all nodes' answers to one question, until there are enough.
pub(crate) struct Gather<T, Enough, Each> {
    enough: Enough,
    /// Called with every answer, those after the decision included.
    each: Each,
    state: Mutex<State<T>>,
}

struct State<T> {
    answers: Vec<Option<T>>,
    waker: Option<Waker>,
}

impl<T, Enough, Each> Gather<T, Enough, Each>
where
    T: OnDropped + Send + 'static,
    Enough: Fn(&[Option<T>]) -> bool + Send + Sync + 'static,
    Each: Fn(usize, &T) + Send + Sync + 'static,
{
    pub(crate) fn new(nodes: usize, enough: Enough, each: Each) -> Arc<Self> {
        let answers = (0..nodes).map(|_| None).collect();
        Arc::new(Self { enough, each, state: Mutex::new(State { answers, waker: None }) })
    }

    pub(crate) fn reply_to(self: &Arc<Self>, node: usize) -> Responder<T> {
        Responder::new(self.clone(), node)
    }

    /// Waits until there are enough answers, or all nodes have answered.
    pub(crate) async fn decided(&self) {
        self.until(&self.enough).await;
    }

    /// Waits until this node has answered, or all nodes have.
    pub(crate) async fn answered(&self, node: usize) {
        self.until(|answers| answers[node].is_some()).await;
    }

    /// Whether this node has not answered yet.
    pub(crate) fn lacks(&self, node: usize) -> bool {
        self.state().answers.get(node).is_some_and(Option::is_none)
    }

    /// Takes the answers so far; later answers do not count.
    pub(crate) fn take(&self) -> Vec<Option<T>> {
        std::mem::take(&mut self.state().answers)
    }

    async fn until(&self, enough: impl Fn(&[Option<T>]) -> bool) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.answers.iter().all(Option::is_some) || enough(&state.answers) {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl<T, Enough, Each> Gather<T, Enough, Each> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, Enough, Each> ReplySink<T> for Gather<T, Enough, Each>
where
    T: Send,
    Enough: Send + Sync,
    Each: Fn(usize, &T) + Send + Sync,
{
    fn collect(&self, from: usize, answer: T) {
        (self.each)(from, &answer);
        let waker = {
            let mut state = self.state();
            // After `take` there is no place for the answer: nobody waits for it any more.
            if let Some(place) = state.answers.get_mut(from) {
                *place = Some(answer);
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
