use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_protocol::{OnDropped, ReplySink, Responder};

/// Puts the answers to several requests into one.
pub(super) struct Gather<P, T: OnDropped> {
    answers: Mutex<Gathered<P, T>>,
}

struct Gathered<P, T: OnDropped> {
    answers: Vec<Option<P>>,
    missing: usize,
    end: Option<End<P, T>>,
}

type End<P, T> = (Responder<T>, Box<dyn FnOnce(Vec<P>) -> T + Send>);

impl<P: Send + 'static, T: OnDropped + 'static> Gather<P, T> {
    /// Answers `to` with what `make` makes of the answers, in order, once all `parts` have come.
    pub(super) fn new(
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
        Arc::new(Self { answers: Mutex::new(Gathered { answers, missing: parts, end }) })
    }
}

impl<P: Send + 'static, T: OnDropped + 'static> ReplySink<P> for Gather<P, T> {
    fn collect(&self, from: usize, answer: P) {
        let (answers, end) = {
            let mut gathered = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.answers[from] = Some(answer);
            gathered.missing -= 1;
            if gathered.missing > 0 {
                return;
            }
            (std::mem::take(&mut gathered.answers), gathered.end.take())
        };
        if let Some((to, make)) = end {
            to.send(make(answers.into_iter().flatten().collect()));
        }
    }
}
