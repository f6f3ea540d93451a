use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{
    ConfigError, Denial, Greeting, Incarnation, Instant, Lane, NoAnswer, NodeProblem,
};

use super::in_flight::InFlight;
use super::replica_acks::AckPolicy;
use super::send_queue::SendQueue;
use crate::command::{Command, NodeContext};
use crate::redirect::{Redirected, Router, Routing, Source};
use crate::resp::Value;
use crate::server_info::ServerInfo;

/// The requests posted to one connection, and the phase that it is in. A mutex guards them; each
/// caller holds it while it appends its bytes.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(super) context: Arc<NodeContext>,
    pub(super) rules: ConnectionRules,
    /// Set for a member of a Redis Cluster.
    pub(super) routing: Option<Routing>,
    state: Mutex<State>,
}

/// What the configuration says about a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionRules {
    /// The connection ends if no reply comes for this long.
    pub(crate) stall: Duration,
    pub(crate) acks: Option<AckPolicy>,
    /// Whether the voting scripts are bound to the incarnation of the server.
    pub(crate) bound: bool,
    /// Whether another address may be the master next.
    pub(crate) several: bool,
    /// Whose connection it is.
    pub(crate) lane: Lane,
}

/// What the caller of [`Requests::post`] has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Posted<D> {
    Done,
    /// Wake the driver.
    Wake,
    /// Start the driver.
    Start(D),
}

#[derive(Debug)]
pub(super) struct State {
    phase: Phase,
    /// The server of the present connection, or of the last one.
    pub(super) server: Option<ServerInfo>,
    /// Since when the connection is up, if it is.
    since: Instant,
    pub(super) send_queue: SendQueue,
    pub(super) closed: bool,
}

#[derive(Debug)]
enum Phase {
    /// No driver task: none was started yet, or its runtime is gone.
    Idle,
    /// The driver dials; requests wait in the queue.
    Dialing,
    Up,
    /// The last attempt failed. The driver dials again in the background; requests fail at once.
    Down(NodeProblem),
}

/// The bound of the queue. A request beyond it fails at once.
pub(super) const MAX_QUEUED: usize = 65_536;

impl Requests {
    pub(crate) fn new(
        context: Arc<NodeContext>,
        rules: ConnectionRules,
        routing: Option<Routing>,
    ) -> Self {
        let state = State {
            phase: Phase::Idle,
            server: None,
            since: Instant::NEVER,
            send_queue: SendQueue::default(),
            closed: false,
        };
        Self { context, rules, routing, state: Mutex::new(state) }
    }

    /// Queues a request, which is answered exactly once. Never blocks. If there is no driver,
    /// `driver` says what is needed to start one, or why none can be started.
    pub(crate) fn post<D>(
        &self,
        request: Command,
        now: Instant,
        driver: impl FnOnce() -> Result<D, ConfigError>,
    ) -> Posted<D> {
        self.queue(InFlight::new(request, now), now, driver)
    }

    /// As [`Self::post`], a request that another member of the Redis Cluster did not carry out.
    pub(crate) fn post_redirected<D>(
        &self,
        request: Redirected,
        now: Instant,
        driver: impl FnOnce() -> Result<D, ConfigError>,
    ) -> Posted<D> {
        let Redirected { request, ask, before, .. } = request;
        self.queue(InFlight::redirected(request, before + 1, ask.is_some(), now), now, driver)
    }

    fn queue<D>(
        &self,
        pending: InFlight,
        now: Instant,
        driver: impl FnOnce() -> Result<D, ConfigError>,
    ) -> Posted<D> {
        let mut state = self.state();
        if let (Phase::Up, Some(rejection)) = (&state.phase, state.rejection(&pending.request)) {
            drop(state);
            self.context.reject(pending.request, rejection, now);
            return Posted::Done;
        }
        match &state.phase {
            Phase::Up | Phase::Dialing if state.send_queue.len() < MAX_QUEUED => {
                // Only the caller that adds the first bytes wakes the driver, which takes all.
                let first = !state.send_queue.has_bytes();
                state.push_unconfirmed(&self.context, now);
                state.push(&self.context, pending);
                if first {
                    return Posted::Wake;
                }
            }
            Phase::Up | Phase::Dialing => {
                drop(state);
                let what = format!("{MAX_QUEUED} requests wait already");
                self.context.not_sent(pending.request, &NodeProblem::NotAsked(what), now);
            }
            Phase::Down(problem) => {
                let problem = problem.clone();
                drop(state);
                self.context.not_sent(pending.request, &problem, now);
            }
            Phase::Idle => match driver() {
                Ok(driver) => {
                    state.phase = Phase::Dialing;
                    state.push(&self.context, pending);
                    return Posted::Start(driver);
                }
                Err(why) => {
                    drop(state);
                    self.context.misconfigured(pending.request, &why, now);
                }
            },
        }
        Posted::Done
    }

    /// Since when posted requests can be sent; `None` while the driver dials.
    pub(crate) fn connected_since(&self) -> Option<Instant> {
        let state = self.state();
        match state.phase {
            Phase::Dialing => None,
            Phase::Up => Some(state.since),
            // All posted requests have been answered.
            Phase::Idle | Phase::Down(_) => Some(Instant::NEVER),
        }
    }

    /// Whether a connection was ever made.
    pub(crate) fn greeted(&self) -> bool {
        self.state().server.is_some()
    }

    /// Whether the node's memory is proven, as far as this connection knows.
    pub(crate) fn proven(&self) -> bool {
        self.state().unproven().is_none()
    }

    /// Answers a request. A node that may not vote has no memory of who holds a name, so it does not say that
    /// nobody does. One that only lacks replicas has.
    pub(super) fn answer(&self, request: Command, asked: Instant, reply: Value, now: Instant) {
        let free = matches!(request, Command::Inspect { .. }) && reply == Value::Nil;
        let why = if free { self.state().unproven().cloned() } else { None };
        match why {
            Some(Denial::Refused(report))
                if matches!(report.problem, NodeProblem::NoReplicas(_)) =>
            {
                self.context.answer(request, asked, reply);
            }
            Some(why) => self.context.unproven(request, &why, now),
            None => self.context.answer(request, asked, reply),
        }
    }

    /// The incarnation under which the node was verified, as far as this connection knows.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.state().incarnation()
    }

    /// Nobody posts requests any more: the driver ends once the posted ones are answered.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    pub(crate) fn closed(&self) -> bool {
        self.state().closed
    }

    /// Whether a request or an unconfirmed release needs a connection, or the driver must end.
    pub(crate) fn wanted(&self) -> bool {
        let state = self.state();
        state.closed || state.send_queue.len() > 0 || self.context.unconfirmed.any()
    }

    /// No connection could be made: requests fail until there is one.
    pub(crate) fn refused(&self, problem: &NodeProblem, now: Instant) {
        self.fail(Phase::Down(problem.clone()), problem, now);
        self.look_elsewhere();
    }

    /// Asks another member of the Redis Cluster who serves the slots of this one (SLOT5).
    pub(crate) fn look_elsewhere(&self) {
        if let Some((router, source)) = self.router() {
            router.look_elsewhere(&source);
        }
    }

    /// The router of the Redis Cluster of which the node is a member, if it is one, and the name of this
    /// connection to it.
    pub(crate) fn router(&self) -> Option<(Arc<dyn Router>, Source)> {
        let Routing { router, member } = self.routing.as_ref()?;
        Some((router.upgrade()?, Source { member: member.clone(), lane: self.rules.lane }))
    }

    /// The node at the other end.
    pub(crate) fn context(&self) -> &Arc<NodeContext> {
        &self.context
    }

    /// Whether a connection is up.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state().phase, Phase::Up)
    }

    /// The driver is gone. Returns whether another one must be started at once, because callers wait:
    /// for the answer to a request, or to a repeated release. Else the next request starts it.
    pub(crate) fn abandoned(&self, now: Instant) -> bool {
        let mut state = self.state();
        let awaited = state.send_queue.len() > 0 || self.context.unconfirmed.any();
        if awaited && !state.closed {
            state.phase = Phase::Dialing;
            return true;
        }
        drop(state);
        self.stranded(now);
        false
    }

    /// Gives the unconfirmed releases of a closed connection to the router: other members of the Redis
    /// Cluster serve their names.
    pub(crate) fn hand_over(&self, now: Instant) {
        if let (true, Some((router, source))) = (self.closed(), self.router()) {
            router.repeat(self.context.unconfirmed.collect(now), source.lane);
        }
    }

    /// The driver is gone, and no other one can be started for those who wait.
    pub(crate) fn stranded(&self, now: Instant) {
        self.fail(Phase::Idle, &NodeProblem::RuntimeEnded, now);
    }

    /// The connection is up: encodes the requests that waited for it, with its scripts.
    pub(super) fn connected(&self, server: ServerInfo, now: Instant) {
        let proven = server.unproven.is_none();
        self.context.run_identities().meet(server.run_identity, proven, now);
        let mut state = self.state();
        (state.phase, state.since, state.server) = (Phase::Up, now, Some(server));
        let mut refused = Vec::new();
        let queued = state.send_queue.take();
        // Releases go before the queued requests, which may want the same names.
        state.push_unconfirmed(&self.context, now);
        for pending in queued {
            match (&pending.request, state.rejection(&pending.request)) {
                (Command::NoReply | Command::LookAtSetup, _) => {}
                (_, None) => state.push(&self.context, pending),
                (_, Some(rejection)) => refused.push((pending.request, rejection)),
            }
        }
        drop(state);
        for (request, rejection) in refused {
            self.context.reject(request, rejection, now);
        }
    }

    /// The connection ended. The handshake had succeeded, so requests wait for the next connection,
    /// first those of which nothing was written.
    pub(super) fn disconnected(&self, unwritten: VecDeque<InFlight>) {
        let mut state = self.state();
        state.phase = Phase::Dialing;
        state.send_queue.put_back(unwritten);
    }

    /// Queues a request for the next attempt, or one that follows another request.
    pub(super) fn push(&self, pending: InFlight) {
        self.state().push(&self.context, pending);
    }

    /// The run identity of the connected server, and when the handshake ended.
    pub(super) fn greeting(&self) -> Greeting {
        let state = self.state();
        let run_identity = state.server.as_ref().and_then(|server| server.run_identity);
        Greeting { run_identity, at: state.since }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a phase in which nothing is sent. All queued requests hear that they were not sent.
    fn fail(&self, phase: Phase, problem: &NodeProblem, now: Instant) {
        let mut state = self.state();
        state.phase = phase;
        let queued = state.send_queue.take();
        drop(state);
        for pending in queued {
            self.context.not_sent(pending.request, problem, now);
        }
    }

    /// Whether the error is a sign that the node lost its memory: with admission, the server does
    /// not know the script, or the script carries another incarnation.
    pub(super) fn must_verify(&self, error: &str) -> bool {
        self.rules.bound && (error.starts_with("NOSCRIPT") || error.starts_with("UNPROVEN"))
    }

    /// Queues commands that load the scripts of a request.
    pub(super) fn reload_scripts(&self, pending: &InFlight) {
        let mut state = self.state();
        let Some(server) = state.server.as_ref() else { return };
        let (scripts, by_eval) = (server.scripts.clone(), server.loads_by_eval);
        for script in pending.request.scripts(&scripts) {
            state.send_queue.push_fire_and_forget(&script.load(by_eval), pending);
        }
    }
}

impl State {
    /// Queues a request. It is encoded only once connected: the scripts may carry the server's
    /// incarnation.
    pub(super) fn push(&mut self, context: &NodeContext, pending: InFlight) {
        match (&self.phase, &self.server) {
            (Phase::Up, Some(server)) => self.send_queue.push(context, server, pending),
            _ => self.send_queue.push_unencoded(pending),
        }
    }

    /// Queues the unconfirmed releases again.
    fn push_unconfirmed(&mut self, context: &NodeContext, now: Instant) {
        for release in context.unconfirmed.collect(now) {
            self.push(context, InFlight::new(Command::repeat(release), now));
        }
    }

    fn unproven(&self) -> Option<&Denial> {
        self.server.as_ref()?.unproven.as_ref()
    }

    fn incarnation(&self) -> Incarnation {
        self.server.as_ref().map_or(Incarnation::NONE, |server| server.incarnation)
    }

    /// Why this request must not go to the connected node, if so.
    fn rejection(&self, request: &Command) -> Option<Rejection> {
        if !request.votes() {
            return None;
        }
        match self.unproven() {
            Some(why) => Some(Rejection::Unproven(why.clone())),
            None => {
                let stale =
                    request.incarnation().is_some_and(|wanted| wanted != self.incarnation());
                stale.then_some(Rejection::Stale)
            }
        }
    }
}

/// Why a vote request is not sent although the node is connected.
enum Rejection {
    /// The node's memory is not proven: it counts for nothing.
    Unproven(Denial),
    /// The request rests on another incarnation (PROTOCOL.md, Admission).
    Stale,
}

impl NodeContext {
    fn reject(&self, request: Command, rejection: Rejection, now: Instant) {
        match rejection {
            Rejection::Unproven(why) => self.unproven(request, &why, now),
            Rejection::Stale => self.stale(request, now),
        }
    }

    /// Answers a request that was never sent.
    fn not_sent(&self, request: Command, problem: &NodeProblem, now: Instant) {
        self.no_answer(request, &NoAnswer::NotSent(self.report(problem.clone())), now);
    }
}
