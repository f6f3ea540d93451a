//! One connection to a server, and the one task that drives it.
//!
//! Requests are appended to one buffer as bytes; the driver writes whatever is there in one go
//! (natural batching) and hands each reply to whoever asked, with no channel per command. The task
//! lives on the caller's runtime: a thread hop costs more than the round trip.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;
use quorumlock_watchdog::Instant;

use super::acks::Wanted;
use super::greet::Greeted;
use super::master::Addresses;
use super::outbox::Outbox;
use super::pending::Pending;
use super::pump::{Ended, How, Pump};
use super::request::{Dialect, Request};
use crate::{Denial, Greeting, NodeProblem, Silence, Stamp, runtime};

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
    /// Since when, if it is up.
    since: Instant,
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
    Down(NodeProblem),
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
        let state = State {
            phase: Phase::Idle,
            greeted: None,
            since: Instant::NEVER,
            outbox: Outbox::default(),
            closed: false,
        };
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
                let first = !state.outbox.has_bytes();
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
                shared.dialect.refuse(request, &NodeProblem::NotAsked(what));
            }
            Phase::Down(problem) => {
                let problem = problem.clone();
                drop(state);
                shared.dialect.refuse(request, &problem);
            }
            Phase::Idle => match runtime::connected() {
                Ok(runtime) => {
                    state.phase = Phase::Dialing;
                    state.push(&shared.dialect, Pending::new(request, asked));
                    drop(state);
                    runtime.spawn(drive(Driver(shared.clone())));
                }
                Err(why) => {
                    drop(state);
                    shared.dialect.misconfigured(request, &why);
                }
            },
        }
    }

    /// Since when what is posted can be sent; `None` while it is being connected.
    pub(super) fn connected_since(&self) -> Option<Instant> {
        let state = self.0.state();
        match state.phase {
            Phase::Dialing => None,
            Phase::Up => Some(state.since),
            // What was posted has been answered.
            Phase::Idle | Phase::Down(_) => Some(Instant::NEVER),
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
        for request in dialect.debts.collect(now) {
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
    fn fail(&self, phase: Phase, problem: &NodeProblem) {
        let mut state = self.state();
        state.phase = phase;
        let queued = state.outbox.take();
        drop(state);
        for pending in queued {
            self.dialect.refuse(pending.request, problem);
        }
    }

    /// Whether scripts are bound to the life of the server.
    pub(super) fn bound(&self) -> bool {
        self.addresses.current().1.charter.is_some()
    }

    /// How the present connection was greeted.
    pub(super) fn greeting(&self) -> (Option<Greeted>, Greeting) {
        let state = self.state();
        let life = state.greeted.as_ref().and_then(|greeted| greeted.life);
        (state.greeted.clone(), Greeting { life, at: state.since })
    }

    /// The connection is ready: what waited for it goes out, as its scripts want it.
    fn publish(&self, greeted: Greeted) {
        let now = self.dialect.clock.now();
        self.dialect.lives().meet(greeted.life, now);
        let mut state = self.state();
        (state.phase, state.since) = (Phase::Up, now);
        self.dialect.identify(greeted.identity);
        if let Some(time) = greeted.time {
            self.dialect.compare_clocks(time);
        }
        state.greeted = Some(greeted);
        let mut refused = Vec::new();
        let queued = state.outbox.take();
        // What others wait for is asked before what may want the same name.
        state.push_debts(&self.dialect, now);
        for pending in queued {
            match (&pending.request, state.objection(&pending.request)) {
                (Request::Aside, _) => {}
                (_, None) => state.push(&self.dialect, pending),
                (_, objection) => refused.push((pending.request, objection)),
            }
        }
        drop(state);
        for (request, objection) in refused {
            self.dialect.object(request, objection);
        }
    }

    fn closed(&self) -> bool {
        self.state().closed
    }

    /// Until a request waits for the connection, or somebody waits for it to end.
    async fn wanted(&self) {
        poll_fn(|cx| {
            self.wake.register(cx.waker());
            let state = self.state();
            let wanted = state.closed || state.outbox.len() > 0 || self.dialect.debts.any();
            if wanted { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
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
    fn refuse(&self, request: Request, problem: &NodeProblem) {
        self.silent(request, &Silence::Never(self.report(problem.clone())));
    }
}

/// Dropped with its task, also when the runtime ends: then the line can be dialled from another.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let gone = NodeProblem::NotAsked("its runtime ended".into());
        self.0.fail(Phase::Idle, &gone);
    }
}

const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LAST_BACKOFF: Duration = Duration::from_secs(1);
/// How long a connection that was cut while idle stays away at most. It comes back before anybody
/// asks, most often, so that a server which lost its memory is noticed; and not at once, so that a
/// server with an idle limit of seconds is not kept busy.
const REST: Duration = Duration::from_secs(2);

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut backoff = FIRST_BACKOFF;
    loop {
        match shared.addresses.open().await {
            Ok((stream, mut greeted)) => {
                let presence = greeted.presence.take();
                shared.publish(greeted);
                let ended = Pump::new(shared, stream).await;
                drop(presence);
                if shared.closed() {
                    return;
                }
                let Ended { why, how } = ended;
                tracing::debug!(node = %shared.dialect.label, %why, ?how, "connection ended");
                // It greeted well: requests wait for the next one.
                shared.state().phase = Phase::Dialing;
                match how {
                    How::Useful => backoff = FIRST_BACKOFF,
                    How::Idle => {
                        let _ = tokio::time::timeout(jittered(REST), shared.wanted()).await;
                    }
                    // What breaks a connection may be what is asked again on the next one.
                    How::InVain => pause(&mut backoff).await,
                }
            }
            Err(problem) => {
                shared.fail(Phase::Down(problem.clone()), &problem);
                if !shared.closed() {
                    pause(&mut backoff).await;
                }
            }
        }
        if shared.closed() {
            return;
        }
    }
}

async fn pause(backoff: &mut Duration) {
    tokio::time::sleep(jittered(*backoff)).await;
    *backoff = (*backoff * 2).min(LAST_BACKOFF);
}

/// So that the clients of a restarted server do not come all at once.
fn jittered(longest: Duration) -> Duration {
    longest.mul_f64(rand::random_range(0.5..1.0))
}
