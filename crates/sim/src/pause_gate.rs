//! Stops and ends the tasks of a process.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Stops and ends the tasks that run through it.
#[derive(Debug, Default)]
pub struct PauseGate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    dead: bool,
    waiting: Vec<Waker>,
}

impl PauseGate {
    pub fn shut(&self) {
        self.with(|gate| gate.shut = true);
    }

    pub fn open(&self) {
        self.with(|gate| gate.shut = false);
    }

    /// Drops every task at its current await.
    pub fn kill(&self) {
        self.with(|gate| gate.dead = true);
    }

    fn with(&self, change: impl FnOnce(&mut GateState)) {
        let mut gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut gate);
        for waker in gate.waiting.drain(..) {
            waker.wake();
        }
    }
}

/// A task that runs through a gate.
pub struct Gated<F> {
    gate: Arc<PauseGate>,
    work: Pin<Box<F>>,
}

impl<F> Gated<F> {
    pub fn new(gate: Arc<PauseGate>, work: F) -> Self {
        Self { gate, work: Box::pin(work) }
    }
}

impl<F: Future<Output = ()>> Future for Gated<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut gate = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
            if gate.dead {
                return Poll::Ready(());
            }
            // The gate must be able to wake this task: a killed task may wait for nothing else.
            if !gate.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                gate.waiting.push(cx.waker().clone());
            }
            if gate.shut {
                return Poll::Pending;
            }
        }
        self.work.as_mut().poll(cx)
    }
}
