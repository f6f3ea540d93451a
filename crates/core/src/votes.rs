//! What nodes answer to the requests of one attempt, for the program: an event and a span for each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quorumlock_protocol::telemetry::{Event, EventHandler, VoteAnswer};
use quorumlock_protocol::{Answer, Instant, Vote};
use quorumlock_watchdog::Clock;
use tracing::field::Empty;
use tracing::{Level, Span, debug_span, span_enabled};

/// The requests of one attempt, where an event handler or a subscriber of `tracing` wants to know of them.
#[derive(Debug)]
pub struct Votes(Option<Watched>);

#[derive(Debug)]
struct Watched {
    handler: Option<EventHandler>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The span of the call; `None` once the attempt has ended. Kept for longer, it would last until the
    /// slowest node answers.
    call: Option<Span>,
    asked: Vec<Asked>,
}

/// A request without an answer.
#[derive(Debug)]
struct Asked {
    node: usize,
    at: Instant,
    /// None once the attempt has ended.
    span: Span,
}

impl Votes {
    /// Begins an attempt, in the span of its call.
    pub fn new(handler: Option<&EventHandler>, clock: &Clock) -> Self {
        let handler = handler.filter(|handler| handler.hears());
        if handler.is_none() && !span_enabled!(Level::DEBUG) {
            return Self(None);
        }
        let state = Mutex::new(State { call: Some(Span::current()), asked: Vec::new() });
        Self(Some(Watched { handler: handler.cloned(), clock: clock.clone(), state }))
    }

    /// The node is asked. Call it before the request is posted.
    pub fn asked(&self, node: usize, label: &str) {
        let Some(watched) = &self.0 else { return };
        let mut state = watched.state();
        let vote = |call: &Span| {
            debug_span!(
                parent: call,
                "quorumlock.vote",
                node = label,
                answer = Empty,
                micros = Empty,
            )
        };
        let span = state.call.as_ref().map_or_else(Span::none, vote);
        state.asked.push(Asked { node, at: watched.clock.now(), span });
    }

    /// The node has answered, or its answer is missing.
    pub fn answered(&self, node: usize, label: &str, answer: &Answer<Vote>) {
        let Some(watched) = &self.0 else { return };
        let mut state = watched.state();
        let Some(at) = state.asked.iter().position(|asked| asked.node == node) else { return };
        let Asked { at, span, .. } = state.asked.swap_remove(at);
        drop(state);
        let (answer, took) = (VoteAnswer::of(answer), watched.clock.now().since(at));
        span.record("answer", answer.as_str()).record("micros", took.as_micros() as u64);
        if let Some(handler) = &watched.handler {
            handler.handle(&Event::Voted { node: label, answer, took });
        }
    }

    /// The attempt has ended. The spans of nodes that have not answered end without an answer.
    pub fn end(&self) {
        let Some(watched) = &self.0 else { return };
        let mut state = watched.state();
        state.call = None;
        state.asked.iter_mut().for_each(|asked| asked.span = Span::none());
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
