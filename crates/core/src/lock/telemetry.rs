//! Counts what happens to locks, and tells the program's event handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_protocol::telemetry::{
    CallOutcome, Event, EventHandler, HoldEnd, LockId, Mode, Stats,
};
use quorumlock_protocol::{BoxFuture, Claim, Error, Instant, LossReason, ReleaseOutcome, Settings};
use quorumlock_watchdog::{Clock, Renewal};
use tracing::{Instrument, Span};

use super::lease::Lease;
use super::spans::{self, Spans, kind_of};
use crate::Lessor;

/// The counters of one locker, and its handler.
pub(super) struct Telemetry {
    counters: Counters,
    mode: Mode,
    spans: Spans,
    handler: Option<EventHandler>,
    clock: Clock,
    lessor: Arc<dyn Lessor>,
}

/// Each counts one field of [`Stats`]; the gauges are differences.
#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    granted: AtomicU64,
    busy: AtomicU64,
    failed: AtomicU64,
    closed: AtomicU64,
    dropped: AtomicU64,
    holds: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
    renewed: AtomicU64,
    not_renewed: AtomicU64,
}

/// A call that has not ended. Dropped without an outcome, its future was dropped.
pub(super) struct Call<'a> {
    telemetry: &'a Telemetry,
    claim: &'a Claim,
    span: Span,
    begun: Option<Instant>,
    outcome: CallOutcome,
}

impl Telemetry {
    pub(super) fn new(settings: &Settings, clock: Clock, lessor: Arc<dyn Lessor>) -> Self {
        Self {
            counters: Counters::default(),
            mode: settings.mode,
            spans: Spans::new(settings),
            handler: settings.on_event.clone(),
            clock,
            lessor,
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let Counters {
            calls,
            granted,
            busy,
            failed,
            closed,
            dropped,
            holds,
            released,
            lost,
            renewed,
            not_renewed,
        } = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats::default();
        (stats.granted, stats.busy) = (read(granted), read(busy));
        (stats.failed, stats.closed) = (read(failed), read(closed));
        stats.dropped = read(dropped);
        (stats.released, stats.lost) = (read(released), read(lost));
        (stats.renewed, stats.not_renewed) = (read(renewed), read(not_renewed));
        // What ended is read before what began, so that no gauge is below zero.
        let ended = stats.granted + stats.busy + stats.failed + stats.closed + stats.dropped;
        stats.waiting = read(calls).saturating_sub(ended);
        stats.held = read(holds).saturating_sub(stats.released + stats.lost);
        stats
    }

    pub(super) fn call_began<'a>(&'a self, claim: &'a Claim, lease: Duration) -> Call<'a> {
        add(&self.counters.calls, 1);
        self.tell(claim, |lock| Event::CallBegan { lock });
        let (span, begun) = (self.spans.acquire(claim, lease), self.now());
        Call { telemetry: self, claim, span, begun, outcome: CallOutcome::Dropped }
    }

    pub(super) fn hold_began(&self, claim: &Claim) {
        add(&self.counters.holds, 1);
        self.tell(claim, |lock| Event::HoldBegan { lock });
    }

    /// Counts the end of a hold, and tells it, once.
    pub(super) fn hold_ended(&self, lease: &Lease, end: HoldEnd) {
        if lease.told.swap(true, Ordering::Relaxed) {
            return;
        }
        match end {
            HoldEnd::Lost(why) => {
                add(&self.counters.lost, 1);
                self.log_loss(lease, why);
            }
            _ => add(&self.counters.released, 1),
        }
        self.tell(&lease.claim, |lock| {
            let now = self.clock.now();
            let (held, left) = (now.since(lease.begun), lease.state.until().since(now));
            Event::HoldEnded { lock, end, held, left }
        });
    }

    /// The line that people look for.
    fn log_loss(&self, lease: &Lease, why: LossReason) {
        let (name, left) = (&lease.claim, lease.state.until().since(self.clock.now()));
        if why == LossReason::HoldLimit {
            return tracing::debug!(%name, %why, "the hold has reached its limit");
        }
        let problems: Vec<_> =
            self.lessor.renewal_problems().iter().map(ToString::to_string).collect();
        let advice = match (why, problems.is_empty()) {
            (LossReason::WindowShut, true) => {
                "no node had trouble at the last renewal: look whether this process was paused"
            }
            (LossReason::WindowShut, false) => "run `quorumlock doctor`, and mend these nodes",
            (LossReason::Forced, _) => "ask who unlocked it by force",
            _ => "look who deleted it or unlocked it by force, or which servers lost their data",
        };
        let nodes = problems.join("; ");
        tracing::warn!(
            %name, %why, ?left, nodes, advice, "the lock is lost: its holder must stop"
        );
    }

    /// Renews a batch of the watchdog, and counts it. The leases ended at `before`.
    pub(super) async fn renew(
        &self,
        before: Vec<Instant>,
        renewing: BoxFuture<Vec<Renewal>>,
    ) -> Vec<Renewal> {
        let (asked, span) = (self.clock.now(), self.spans.renew(before.len()));
        let answers = renewing.instrument(span.clone()).await;
        self.renewed(&span, asked, &before, &answers);
        answers
    }

    fn renewed(&self, span: &Span, asked: Instant, before: &[Instant], answers: &[Renewal]) {
        let moved = |(answer, before): &(&Renewal, &Instant)| match answer {
            Renewal::Until(until) => until > *before,
            Renewal::Gone | Renewal::Unknown => false,
        };
        let confirmed = answers.iter().zip(before).filter(moved).count();
        let gone = answers.iter().filter(|answer| matches!(answer, Renewal::Gone)).count();
        let unconfirmed = answers.len().saturating_sub(confirmed + gone);
        add(&self.counters.renewed, confirmed);
        add(&self.counters.not_renewed, unconfirmed);
        span.record("confirmed", confirmed).record("unconfirmed", unconfirmed).record("gone", gone);
        if self.hears() {
            let took = self.clock.now().since(asked);
            self.handle(&Event::Renewed { mode: self.mode, confirmed, unconfirmed, gone, took });
        }
    }

    /// Waits for a release on the nodes.
    pub(super) async fn release(
        &self,
        claim: &Claim,
        releasing: BoxFuture<Result<ReleaseOutcome, Error>>,
    ) -> Result<ReleaseOutcome, Error> {
        let span = self.spans.release(claim);
        let released = releasing.instrument(span.clone()).await;
        spans::released(&span, &released);
        released
    }

    fn tell(&self, claim: &Claim, event: impl for<'a> FnOnce(LockId<'a>) -> Event<'a>) {
        if self.hears() {
            let name = claim.to_string();
            let lock = LockId { mode: self.mode, kind: kind_of(claim), name: &name };
            self.handle(&event(lock));
        }
    }

    fn handle(&self, event: &Event<'_>) {
        if let Some(handler) = &self.handler {
            handler.handle(event);
        }
    }

    fn hears(&self) -> bool {
        self.handler.as_ref().is_some_and(EventHandler::hears)
    }

    /// Only a handler needs the time.
    fn now(&self) -> Option<Instant> {
        self.hears().then(|| self.clock.now())
    }
}

impl Call<'_> {
    /// The span in which the call runs.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Ends the call, which has asked the nodes `rounds` times.
    pub(super) fn end(mut self, rounds: u32, result: Result<&Lease, &Error>) {
        self.span.record("rounds", rounds);
        self.outcome = match result {
            Ok(lease) => {
                let valid_for = || lease.state.until().since(self.telemetry.clock.now());
                spans::granted(&self.span, lease.fence, valid_for);
                CallOutcome::Granted
            }
            Err(Error::Closed) => CallOutcome::Closed,
            Err(Error::Busy(_)) => CallOutcome::Busy,
            Err(Error::Unreachable(_)) => CallOutcome::Unreachable,
            Err(Error::Refused(_)) => CallOutcome::Refused,
            Err(_) => CallOutcome::Failed,
        };
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Self { telemetry, claim, ref span, begun, outcome } = *self;
        span.record("outcome", outcome.as_str());
        let counters = &telemetry.counters;
        let counter = match outcome {
            CallOutcome::Granted => &counters.granted,
            CallOutcome::Busy => &counters.busy,
            CallOutcome::Closed => &counters.closed,
            CallOutcome::Dropped => &counters.dropped,
            _ => &counters.failed,
        };
        add(counter, 1);
        telemetry.tell(claim, |lock| {
            let took = begun.map_or(Duration::ZERO, |begun| telemetry.clock.now().since(begun));
            Event::CallEnded { lock, outcome, took }
        });
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
