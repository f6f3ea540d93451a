use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{OnDropped, ReplySink, Responder};

/// Puts the answers to several requests into one.
pub struct Parts<P, T: OnDropped> {
    state: Mutex<State<P, T>>,
}

struct State<P, T: OnDropped> {
    answers: Vec<Option<P>>,
    missing: usize,
    end: Option<End<P, T>>,
}

type End<P, T> = (Responder<T>, Box<dyn FnOnce(Vec<P>) -> T + Send>);

impl<P: Send + 'static, T: OnDropped + 'static> Parts<P, T> {
    /// Answers `to` with what `make` makes of the answers, in order, once all `parts` have come.
    pub fn new(
        parts: usize,
        make: impl FnOnce(Vec<P>) -> T + Send + 'static,
        to: Responder<T>,
    ) -> Arc<Self> {
        let mut end: Option<End<P, T>> = Some((to, Box::new(make)));
        if parts == 0
            && let Some((to, make)) = end.take()
        {
            to.send(make(Vec::new()));
        }
        let answers = (0..parts).map(|_| None).collect();
        Arc::new(Self { state: Mutex::new(State { answers, missing: parts, end }) })
    }
}

impl<P, T: OnDropped> fmt::Debug for Parts<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<P: Send + 'static, T: OnDropped + 'static> ReplySink<P> for Parts<P, T> {
    fn collect(&self, from: usize, answer: P) {
        let (answers, end) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.answers[from] = Some(answer);
            state.missing -= 1;
            if state.missing > 0 {
                return;
            }
            (std::mem::take(&mut state.answers), state.end.take())
        };
        if let Some((to, make)) = end {
            to.send(make(answers.into_iter().flatten().collect()));
        }
    }
}
