//! One connection to a server, and the one task that drives it.
//!
//! Requests are appended to one buffer as bytes; the driver writes whatever is there in one go
//! (natural batching) and hands each reply to whoever asked, with no channel per command. The task
//! lives on the caller's runtime: a thread hop costs more than the round trip.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::task::AtomicWaker;
use quorumlock_watchdog::Instant;
use tokio::runtime::Handle;

use super::acks::Wanted;
use super::dial::Trouble;
use super::greet::Greeted;
use super::master::Addresses;
use super::outbox::Outbox;
use super::pending::Pending;
use super::pump::Pump;
use super::request::{Dialect, Request};
use crate::{ConfigError, Denial, ReplyTo, Silence, Stamp};

/// One connection: dialled at the first request, re-dialled when it breaks, closed on drop.
#[derive(Debug)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) addresses: Arc<Addresses>,
    pub(super) dialect: Arc<Dialect>,
    pub(super) stall: Duration,
    pub(super) acks: Option<Wanted>,
    state: Mutex<State>,
    pub(super) wake: AtomicWaker,
}

#[derive(Debug)]
pub(super) struct State {
    phase: Phase,
    /// Of the present connection, or of the last one.
    pub(super) greeted: Option<Greeted>,
    pub(super) outbox: Outbox,
    pub(super) closed: bool,
}

#[derive(Debug)]
enum Phase {
    /// No driver: none yet, or its runtime is gone.
    Idle,
    /// Requests wait for the connection.
    Dialing,
    Up,
    /// The driver dials on in the background; requests fail at once.
    Down(Trouble),
}

/// A server that is this far behind gets no more: every queue has a bound.
const MOST_QUEUED: usize = 65_536;

impl Line {
    pub(super) fn new(
        addresses: Arc<Addresses>,
        dialect: Arc<Dialect>,
        stall: Duration,
        acks: Option<Wanted>,
    ) -> Self {
        let state =
            State { phase: Phase::Idle, greeted: None, outbox: Outbox::default(), closed: false };
        Self(Arc::new(Shared {
            addresses,
            dialect,
            stall,
            acks,
            state: Mutex::new(state),
            wake: AtomicWaker::new(),
        }))
    }

    /// Queues a request; its answer comes exactly once. Never blocks.
    pub(super) fn post(&self, request: Request) {
        let shared = &self.0;
        // The lease counts from before the command enters our own queue.
        let asked = shared.dialect.clock.early();
        let mut state = shared.state();
        match &state.phase {
            Phase::Up if state.objection(&request).is_some() => {
                let objection = state.objection(&request);
                drop(state);
                shared.dialect.object(request, objection);
            }
            Phase::Up | Phase::Dialing if state.outbox.len() < MOST_QUEUED => {
                // Whoever put the first bytes there wakes the driver, which takes all of them.
                let first = state.outbox.is_empty();
                state.push_debts(&shared.dialect, asked);
                state.push(&shared.dialect, Pending::new(request, asked));
                drop(state);
                if first {
                    shared.wake.wake();
                }
            }
            Phase::Up | Phase::Dialing => {
                drop(state);
                let what = format!("{MOST_QUEUED} requests wait already");
                let silence = Silence::Never(shared.dialect.report(what));
                shared.dialect.silent(request, &silence);
            }
            Phase::Down(trouble) => {
                let trouble = trouble.clone();
                drop(state);
                shared.dialect.refuse(request, &trouble);
            }
            Phase::Idle => match Handle::try_current() {
                Ok(runtime) => {
                    state.phase = Phase::Dialing;
                    state.push(&shared.dialect, Pending::new(request, asked));
                    drop(state);
                    runtime.spawn(drive(Driver(shared.clone())));
                }
                Err(_) => {
                    drop(state);
                    shared.dialect.misconfigured(request, &ConfigError::NoRuntime);
                }
            },
        }
    }

    /// Whether the node's memory is proven, as far as this line knows.
    pub(super) fn proven(&self) -> bool {
        self.0.state().unproven().is_none()
    }

    /// Under what the node's memory was verified, as far as this line knows.
    pub(super) fn stamp(&self) -> Stamp {
        self.0.state().stamp()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.wake.wake();
    }
}

impl State {
    /// Asks once more for the releases that may not have arrived.
    fn push_debts(&mut self, dialect: &Dialect, now: Instant) {
        for (term, spot) in dialect.debts.collect(now) {
            let request = Request::Release { term, spot, to: ReplyTo::nobody() };
            self.push(dialect, Pending::new(request, now));
        }
    }

    /// Encoded only once connected: the scripts may be bound to the connection's server.
    pub(super) fn push(&mut self, dialect: &Dialect, pending: Pending) {
        match (&self.phase, &self.greeted) {
            (Phase::Up, Some(greeted)) => self.outbox.push(dialect, greeted, pending),
            _ => self.outbox.keep(pending),
        }
    }

    fn unproven(&self) -> Option<&Denial> {
        self.greeted.as_ref()?.unproven.as_ref()
    }

    fn stamp(&self) -> Stamp {
        self.greeted.as_ref().map_or(Stamp::NONE, |greeted| greeted.stamp)
    }

    /// Why the connected node may not be asked this.
    fn objection(&self, request: &Request) -> Option<Objection> {
        if !request.votes() {
            return None;
        }
        match self.unproven() {
            Some(why) => Some(Objection::Unproven(why.clone())),
            None => request.stamp().filter(|s| *s != self.stamp()).map(|_| Objection::Stale),
        }
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a phase in which nothing is sent: whatever is queued is answered.
    fn fail(&self, phase: Phase, trouble: &Trouble) {
        let mut state = self.state();
        state.phase = phase;
        let queued = state.outbox.take();
        drop(state);
        for pending in queued {
            self.dialect.refuse(pending.request, trouble);
        }
    }

    /// Whether scripts are bound to the life of the server.
    pub(super) fn bound(&self) -> bool {
        self.addresses.current().1.charter.is_some()
    }

    /// The connection is ready: what waited for it goes out, as its scripts want it.
    fn publish(&self, greeted: Greeted) {
        let mut state = self.state();
        state.phase = Phase::Up;
        self.dialect.identity.store(greeted.identity, Ordering::Relaxed);
        state.greeted = Some(greeted);
        let mut refused = Vec::new();
        for pending in state.outbox.take() {
            match (&pending.request, state.objection(&pending.request)) {
                (Request::Aside, _) => {}
                (_, None) => state.push(&self.dialect, pending),
                (_, objection) => refused.push((pending.request, objection)),
            }
        }
        state.push_debts(&self.dialect, self.dialect.clock.now());
        drop(state);
        for (request, objection) in refused {
            self.dialect.object(request, objection);
        }
    }

    fn closed(&self) -> bool {
        self.state().closed
    }
}

/// Why a request is not sent although the node is connected.
enum Objection {
    /// It counts for nothing.
    Unproven(Denial),
    /// The request rests on another stamp (SAFETY.md, Admission).
    Stale,
}

impl Dialect {
    fn object(&self, request: Request, objection: Option<Objection>) {
        match objection {
            Some(Objection::Unproven(why)) => self.unproven(request, &why),
            Some(Objection::Stale) | None => self.stale(request),
        }
    }

    /// Answers a request that was never sent.
    fn refuse(&self, request: Request, trouble: &Trouble) {
        match trouble {
            Trouble::Passing(what) => {
                self.silent(request, &Silence::Never(self.report(what.clone())));
            }
            Trouble::Config(error) => self.misconfigured(request, error),
        }
    }
}

/// Dropped with its task, also when the runtime ends: then the line can be dialled from another.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let gone = Trouble::Passing("its runtime ended".into());
        self.0.fail(Phase::Idle, &gone);
    }
}

const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LAST_BACKOFF: Duration = Duration::from_secs(1);

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut backoff = FIRST_BACKOFF;
    loop {
        match shared.addresses.open().await {
            Ok((stream, greeted)) => {
                shared.publish(greeted);
                let ended = Pump::new(shared, stream).await;
                if shared.closed() {
                    return;
                }
                tracing::debug!(node = %shared.dialect.label, why = %ended.why, "connection ended");
                if ended.useful {
                    // Most often a restart or an idle limit: requests may wait for one re-dial.
                    backoff = FIRST_BACKOFF;
                    shared.state().phase = Phase::Dialing;
                    continue;
                }
                let trouble = Trouble::Passing(ended.why);
                shared.fail(Phase::Down(trouble.clone()), &trouble);
            }
            Err(trouble) => shared.fail(Phase::Down(trouble.clone()), &trouble),
        }
        if shared.closed() {
            return;
        }
        // Jittered, so that the clients of a restarted server do not come all at once.
        tokio::time::sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
        backoff = (backoff * 2).min(LAST_BACKOFF);
        if shared.closed() {
            return;
        }
    }
}
