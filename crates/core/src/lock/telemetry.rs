//! Counts what happens to locks, and tells the program's event handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_protocol::telemetry::{
    CallOutcome, Event, EventHandler, HoldEnd, LockId, Mode, Stats,
};
use quorumlock_protocol::{BoxFuture, Claim, Error, Instant, LossReason, ReleaseOutcome, Settings};
use quorumlock_watchdog::{Clock, Renewal};
use tracing::{Instrument, Span, field};

use super::lease::Lease;
use super::long_holds::LongHolds;
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
    /// What the clock had missed when a hold began or was renewed last, in nanoseconds.
    missed: AtomicU64,
    long_holds: LongHolds,
    /// From when on a hold is told as a long one.
    long_hold: Option<Duration>,
    /// Whether calls wait for nodes, which is told once for all of them.
    outage: AtomicBool,
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
            missed: AtomicU64::new(0),
            long_holds: LongHolds::default(),
            long_hold: settings.long_hold,
            outage: AtomicBool::new(false),
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
        stats.oldest = self.long_holds.oldest().map(|begun| self.clock.now().since(begun));
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
        self.note_clock();
        self.tell(claim, |lock| Event::HoldBegan { lock });
    }

    /// Counts the end of a hold, and tells it, once.
    pub(super) fn hold_ended(&self, lease: &Lease, end: HoldEnd) {
        if lease.told.swap(true, Ordering::SeqCst) {
            return;
        }
        self.risk_ended(lease, false);
        self.long_hold_ended(lease);
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
        let (name, token) = (&lease.claim, lease.token);
        let left = lease.state.until().since(self.clock.now());
        if why == LossReason::HoldLimit {
            return tracing::debug!(%name, %why, "the hold has reached its limit");
        }
        let (nodes, clock_ahead) = (self.problems(), self.clock_ahead());
        let advice = match why {
            LossReason::WindowShut => not_renewed(&nodes, clock_ahead),
            LossReason::Forced => "ask who unlocked it by force",
            _ => "look who deleted it or unlocked it by force, or which servers lost their data",
        };
        tracing::warn!(
            %name, %token, %why, ?left, nodes, clock_ahead = clock_ahead.map(field::debug), advice,
            "the lock is lost: its holder must stop"
        );
    }

    /// Tells that calls wait for nodes, once until they [answer again](Self::nodes_answer).
    pub(super) fn waits_for_nodes(&self, claim: &Claim, error: &Error) {
        if !self.outage.swap(true, Ordering::Relaxed) {
            tracing::info!(name = %claim, %error, "calls wait for the nodes");
        }
    }

    /// Notes that a call that waited for nodes has an answer.
    pub(super) fn nodes_answer(&self) {
        if self.outage.swap(false, Ordering::Relaxed) {
            tracing::info!("the nodes answer again");
        }
    }

    /// Notes what the clock has missed by now.
    fn note_clock(&self) {
        let missed = self.clock.missed().as_nanos();
        self.missed.store(u64::try_from(missed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// By how much another clock of this machine has moved ahead since the last renewal, if by a second or
    /// more: the wall clock was set, or the machine was paused.
    fn clock_ahead(&self) -> Option<Duration> {
        let before = Duration::from_nanos(self.missed.load(Ordering::Relaxed));
        let ahead = self.clock.missed().saturating_sub(before).as_micros().div_ceil(1_000);
        u64::try_from(ahead).ok().filter(|ms| *ms >= 1_000).map(Duration::from_millis)
    }

    /// What is wrong with nodes that did not carry out the last renewal, for people.
    fn problems(&self) -> String {
        let reports = self.lessor.renewal_problems();
        reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Tells that the hold is at risk, if it is, or that it has lasted for long, each once.
    pub(super) fn renewal_sent(&self, lease: &Lease) {
        self.tell_long_hold(lease);
        self.tell_risk(lease);
    }

    fn tell_long_hold(&self, lease: &Lease) {
        lease.renewed.store(true, Ordering::SeqCst);
        let (name, token, now) = (&lease.claim, lease.token, self.clock.now());
        if self.long_holds.goes_on((lease.begun, lease.id), now, self.long_hold) {
            let held = now.since(lease.begun);
            tracing::warn!(%name, %token, ?held, "the lock is held for long");
            self.tell(&lease.claim, |lock| Event::LongHoldBegan { lock, held });
        }
        // The hold may have ended meanwhile.
        if lease.told.load(Ordering::SeqCst) {
            self.long_hold_ended(lease);
        }
    }

    fn long_hold_ended(&self, lease: &Lease) {
        let renewed = lease.renewed.load(Ordering::SeqCst);
        if renewed && self.long_holds.ended((lease.begun, lease.id)) {
            self.tell(&lease.claim, |lock| Event::LongHoldEnded { lock });
        }
    }

    fn tell_risk(&self, lease: &Lease) {
        if !lease.state.is_at_risk() || lease.told_at_risk.swap(true, Ordering::SeqCst) {
            return;
        }
        let (name, left) = (&lease.claim, lease.state.until().since(self.clock.now()));
        let (nodes, clock_ahead) = (self.problems(), self.clock_ahead());
        tracing::warn!(
            %name, ?left, nodes, clock_ahead = clock_ahead.map(field::debug),
            advice = not_renewed(&nodes, clock_ahead),
            "the lock is at risk: its renewals are not confirmed, and it is lost when its lease ends"
        );
        self.tell(&lease.claim, |lock| Event::RiskBegan { lock, left });
        // The hold may have ended meanwhile.
        if lease.told.load(Ordering::SeqCst) {
            self.risk_ended(lease, false);
        }
    }

    /// Tells that a hold that was at risk no longer is, since it is `renewed` or has ended.
    fn risk_ended(&self, lease: &Lease, renewed: bool) {
        if !lease.told_at_risk.swap(false, Ordering::SeqCst) {
            return;
        }
        if renewed {
            tracing::info!(name = %lease.claim, "the lock is renewed again");
        }
        self.tell(&lease.claim, |lock| Event::RiskEnded { lock });
    }

    /// Renews a batch of the watchdog, and counts it.
    pub(super) async fn renew(
        &self,
        leases: &[Arc<Lease>],
        renewing: BoxFuture<Vec<Renewal>>,
    ) -> Vec<Renewal> {
        let before: Vec<_> = leases.iter().map(|lease| lease.state.until()).collect();
        let (asked, span) = (self.clock.now(), self.spans.renew(before.len()));
        let answers = renewing.instrument(span.clone()).await;
        let moved = |(answer, before): (&Renewal, &Instant)| match answer {
            Renewal::Until(until) => until > before,
            Renewal::Gone | Renewal::Unknown => false,
        };
        let confirmed: Vec<_> = answers.iter().zip(&before).map(moved).collect();
        if confirmed.contains(&true) {
            self.note_clock();
        }
        for (lease, _) in leases.iter().zip(&confirmed).filter(|(_, confirmed)| **confirmed) {
            self.risk_ended(lease, true);
        }
        self.renewed(&span, asked, confirmed.into_iter().filter(|it| *it).count(), &answers);
        answers
    }

    fn renewed(&self, span: &Span, asked: Instant, confirmed: usize, answers: &[Renewal]) {
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
                spans::granted(&self.span, lease.token, valid_for);
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

/// What to do about renewals that are not confirmed, if `nodes` had trouble, or this machine's clock did.
fn not_renewed(nodes: &str, clock_ahead: Option<Duration>) -> &'static str {
    match nodes {
        _ if clock_ahead.is_some() => {
            "this machine's clock was set forward by `clock_ahead`, which ends leases early, or the machine was \
             paused: let NTP slew the clock"
        }
        "" => "no node had trouble at the last renewal: look whether this process was paused",
        _ => "run `quorumlock doctor`, and mend these nodes",
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
