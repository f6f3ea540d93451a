use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use quorumlock_core::{Votes, answer_deadline};
use quorumlock_protocol::{
    Acceptance, Acquired, Answer, Denial, Error, FencingToken, HeldInterval, Hints, Incarnation,
    Instant, Lane, LeaseRequest, Node, Proposals, ReplySink, Responder, Vote, might_be_granted,
};
use quorumlock_watchdog::Clock;

use crate::drained::released;
use crate::home::HomeLatency;
use crate::lease_table::LeaseTable;
use crate::top_up::top_up;
use quorumlock_protocol::round::{Round, Step};

/// Carries out one [`Round`]: sends the requests, decides at the majority and waits for no
/// straggler. A `QuorumAcquire` that is dropped without a win releases everything that nodes may
/// have granted, late grants included.
pub(crate) struct QuorumAcquire<N: Node>(Arc<Shared<N>>);

struct Shared<N: Node> {
    nodes: Arc<[Arc<N>]>,
    lease: LeaseRequest,
    /// Each node's incarnation when the round began. Every request of the round carries it
    /// (PROTOCOL.md ADM3, M8e).
    incarnations: Vec<Incarnation>,
    token: FencingToken,
    hints: Hints,
    /// The only node at which the caller queues, as long as this node answers (PROTOCOL.md W7).
    /// `None`: the caller queues at all nodes.
    home: Option<usize>,
    home_latency: HomeLatency,
    /// When the round began.
    begun: Instant,
    clock: Clock,
    proposals: Arc<Proposals>,
    leases: LeaseTable,
    votes: Votes,
    state: Mutex<State>,
    me: Weak<Self>,
}

struct State {
    round: Round,
    phase: Phase,
    /// The nodes that this round asks to enqueue the caller if they refuse.
    enqueues: BTreeSet<usize>,
    /// When a token was last proposed.
    proposed: Instant,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Open,
    Decided,
    /// Won with this token, and the lease belongs to the caller: late grants count as votes for it.
    Committed(FencingToken),
    /// Not won, since another client holds the name: a caller that was queued keeps its place.
    Lost,
    Abandoned,
}

impl<N: Node> QuorumAcquire<N> {
    pub(crate) fn open(
        nodes: &Arc<[Arc<N>]>,
        (lease, token): (LeaseRequest, FencingToken),
        (round, votes): (Round, Votes),
        (hints, home): (Hints, Option<usize>),
        pace: &HomeLatency,
        (clock, proposals): (&Clock, &Arc<Proposals>),
        lease_table: &LeaseTable,
    ) -> Self {
        let asked = round.asked();
        let (enqueues, begun) = (BTreeSet::new(), clock.early());
        let proposed = begun;
        let state = State { round, phase: Phase::Open, enqueues, proposed, waker: None };
        let shared = Arc::new_cyclic(|me| Shared {
            nodes: nodes.clone(),
            lease,
            incarnations: nodes.iter().map(|node| node.incarnation()).collect(),
            token,
            hints,
            home,
            home_latency: pace.clone(),
            begun,
            clock: clock.clone(),
            proposals: proposals.clone(),
            leases: lease_table.clone(),
            votes,
            state: Mutex::new(state),
            me: me.clone(),
        });
        shared.ask(asked, &shared.hints, home);
        Self(shared)
    }

    /// The decision. It comes at most `within` after all nodes could be asked.
    pub(crate) async fn decision(self, within: Duration) -> Result<Acquired, Error> {
        let decided = poll_fn(|cx| {
            let mut state = self.0.state();
            if state.phase == Phase::Decided {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        let connected = || connected_since(&self.0.nodes, Lane::Caller, |_| true);
        let in_time = answer_deadline(within, &self.0.clock, connected, async {
            if self.0.state().round.asks_home_first() {
                self.skip_home().await;
            }
            decided.await;
        });
        let in_time = in_time.await.is_some();
        let (decided, held) = self.close((!in_time).then_some(within));
        if decided.is_err() {
            let held = held.into_iter().map(|node| self.0.nodes[node].clone());
            let held = held.filter(|node| node.greeted()).collect();
            // Posts the releases.
            drop(self);
            released(held, within).await;
        }
        decided
    }

    /// The result of the round, for which the caller has `waited` in vain; and the nodes that may hold the
    /// lock and answer.
    fn close(&self, waited: Option<Duration>) -> (Result<Acquired, Error>, Vec<usize>) {
        let now = self.0.clock.now();
        let mut state = self.0.state();
        let stragglers = state.round.unanswered();
        // Judged again at this instant: the process may have been paused after the answer came
        // (H3).
        match state.round.close(now) {
            Step::Won(grant) => {
                let window = state.round.window();
                self.0.leases.insert(self.0.lease.nonce, window, grant.token, stragglers);
                state.phase = Phase::Committed(grant.token);
                let (stale, queued) = (state.round.stale(), state.still_queued(&self.0.hints));
                drop(state);
                self.0.top_up(grant.token, stale);
                queued.into_iter().for_each(|node| self.0.leave_queue(node));
                (Ok(Acquired::Granted(grant)), Vec::new())
            }
            _ => {
                let label = |node: usize| self.0.nodes[node].label().to_owned();
                let failure = state.round.failure(Some(&self.0.lease.claim.label()), waited, label);
                // A reader that splits votes may have kept out a writer at the home node whose turn keeps
                // readers out elsewhere: then nobody holds the name, and the release notifies the writer
                // (PROTOCOL.md W8).
                state.phase = match failure {
                    Ok(Acquired::BusyElsewhere(_)) => Phase::Lost,
                    Ok(Acquired::Split(_)) if !self.0.lease.claim.reads() => Phase::Lost,
                    _ => state.phase,
                };
                let held = match waited {
                    Some(_) => state.round.granted(),
                    // Nodes that have not answered yet may grant it now.
                    None => (0..self.0.nodes.len())
                        .filter(|node| !state.round.has_failed_at(*node))
                        .collect(),
                };
                (failure, held)
            }
        }
    }
}

/// Since when requests can be sent to all nodes that matter; `None` while one of them is being
/// connected.
pub(crate) fn connected_since<N: Node>(
    nodes: &[Arc<N>],
    lane: Lane,
    matters: impl Fn(usize) -> bool,
) -> Option<Instant> {
    let nodes = nodes.iter().enumerate().filter(|(node, _)| matters(*node));
    nodes
        .map(|(_, node)| node.connected_since(lane))
        .try_fold(Instant::NEVER, |last, since| since.map(|since| last.max(since)))
}

impl<N: Node> QuorumAcquire<N> {
    /// Waits for the home node's answer, and asks the other nodes if it does not come in time: a
    /// dead home node must not keep callers out.
    async fn skip_home(&self) {
        let passed = poll_fn(|cx| {
            let mut state = self.0.state();
            if state.phase == Phase::Decided || !state.round.asks_home_first() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        if tokio::time::timeout(self.0.home_latency.timeout(), passed).await.is_err() {
            self.0.fan_out();
        }
    }
}

impl<N: Node> Drop for QuorumAcquire<N> {
    fn drop(&mut self) {
        self.0.votes.end();
        let mut state = self.0.state();
        if let Phase::Committed(_) = state.phase {
            return;
        }
        // The caller keeps its place and nobody is notified: another client holds the name, so the
        // next waiter would fail, too. The holder's release notifies a waiter at the home node.
        let hints = match state.phase {
            Phase::Lost => self.0.hints.clone(),
            _ => Hints::default(),
        };
        state.phase = Phase::Abandoned;
        let held: Vec<_> = (0..self.0.nodes.len()).filter(|n| state.round.may_hold(*n)).collect();
        drop(state);
        for node in held {
            self.0.release(node, hints_for(node, self.0.home, &hints));
        }
    }
}

/// The caller queues at `home` alone; without a `home`, at all nodes.
fn hints_for(node: usize, home: Option<usize>, hints: &Hints) -> Hints {
    match home {
        Some(home) if home != node => hints.clone().away_from_home(),
        _ => hints.clone(),
    }
}

impl<N: Node> Shared<N> {
    /// Uses the connection of the acquire request, so that the release cannot overtake it (H17).
    fn release(&self, node: usize, hints: Hints) {
        let held = HeldInterval::UNKNOWN;
        self.nodes[node].release(&self.lease, held, Lane::Caller, hints, Responder::nobody());
    }

    /// Nodes that were verified meanwhile join the lease at once, not only at its renewal.
    fn top_up(&self, token: FencingToken, lacking: Vec<usize>) {
        // Not if the lease has been released or has ended.
        if self.leases.lacking(self.lease.nonce, self.clock.now()).is_some() {
            top_up(&self.nodes, &self.leases, &self.lease, token, Lane::Caller, lacking);
        }
    }

    /// Leaves the queue of a node although the round is won: the caller does not wait any more, and
    /// may have ended by the time it is notified.
    fn leave_queue(&self, node: usize) {
        if let Some(queue) = self.nodes[node].wait_queue() {
            queue.leave(&self.lease.claim, None);
        }
    }

    fn ask(self: &Arc<Self>, nodes: Vec<usize>, hints: &Hints, home: Option<usize>) {
        for node in nodes {
            let hints = hints_for(node, home, hints);
            if let Some(enqueue) = hints.enqueue() {
                enqueue.queued_at.add(node);
                self.state().enqueues.insert(node);
            }
            let (stamp, to) = (self.incarnations[node], Responder::new(self.clone(), node));
            self.votes.asked(node, self.nodes[node].label());
            self.nodes[node].acquire(&self.lease, self.token, stamp, hints, to);
        }
    }

    fn fan_out(self: &Arc<Self>) {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return;
        }
        let nodes = state.round.fan_out();
        let home = self.home.filter(|_| state.round.has_home());
        let waker = state.waker.take();
        drop(state);
        self.ask(nodes.clone(), &self.hints.clone().after_home(), home);
        if self.state().phase == Phase::Abandoned {
            // Abandoned meanwhile, perhaps before these requests were sent: the drop may not have
            // released them.
            nodes.into_iter().for_each(|node| self.release(node, Hints::default()));
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn act(&self, mut state: MutexGuard<'_, State>, step: Step) {
        match step {
            Step::Wait => {}
            Step::FanOut => {
                drop(state);
                if let Some(me) = self.me.upgrade() {
                    me.fan_out();
                }
            }
            Step::Propose(mark) => {
                let now = self.clock.early();
                let took = now.since(std::mem::replace(&mut state.proposed, now));
                let token =
                    self.proposals.raised(&self.lease.claim, mark, self.clock.wall_micros(), took);
                let step = state.round.propose(token, now);
                self.act(state, step);
            }
            Step::Raise(token, nodes) => {
                drop(state);
                let Some(me) = self.me.upgrade() else { return };
                for node in nodes {
                    let to = Responder::new(Arc::new(Raise { token, round: me.clone() }), node);
                    self.nodes[node].raise(&self.lease, token, self.incarnations[node], to);
                }
            }
            Step::Won(_) | Step::Failed => {
                state.phase = Phase::Decided;
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: Node> ReplySink<Answer<Vote>> for Shared<N> {
    fn collect(&self, node: usize, answer: Answer<Vote>) {
        self.votes.answered(node, self.nodes[node].label(), &answer);
        if self.home == Some(node) && !matches!(answer, Answer::NoAnswer(_)) {
            self.home_latency.record(self.clock.now().since(self.begun));
        }
        let mut state = self.state();
        match state.phase {
            // An early instant is enough: `decision` judges again whether the round is won.
            Phase::Open => {
                let step = state.round.on_answer(node, answer, self.clock.early());
                self.act(state, step);
            }
            // `decision` or the drop will read the round again, and the answer may be a vote:
            // record it.
            Phase::Decided | Phase::Lost => {
                state.round.on_answer(node, answer, self.clock.early());
            }
            Phase::Committed(token) => {
                let queued = state.enqueues.contains(&node);
                drop(state);
                if queued && !matches!(answer, Answer::Yes(_)) {
                    self.leave_queue(node);
                }
                let counts = self.leases.record_straggler(self.lease.nonce, node, &answer);
                if !counts && might_be_granted(&answer) {
                    self.release(node, Hints::default());
                } else if let Answer::No(Denial::Stale(_)) = answer {
                    self.top_up(token, vec![node]);
                }
            }
            Phase::Abandoned => {
                drop(state);
                // After a yes nothing is left to do: the drop has posted a release behind the
                // acquire request on the same connection (H17).
                if !matches!(answer, Answer::Yes(_)) && might_be_granted(&answer) {
                    self.release(node, Hints::default());
                }
            }
        }
    }
}

impl State {
    /// The nodes at which the caller may still be queued when the round is won, by this attempt or
    /// an earlier one. A node that was asked to enqueue it and grants removes it from its queue.
    fn still_queued(&self, hints: &Hints) -> Vec<usize> {
        let mut queued = hints.enqueue().map_or_else(Vec::new, |enqueue| enqueue.queued_at.nodes());
        queued.retain(|node| !self.enqueues.contains(node) || self.round.has_failed_at(*node));
        queued
    }
}

/// Collects the answers of nodes that were asked to accept a larger token.
struct Raise<N: Node> {
    token: FencingToken,
    round: Arc<Shared<N>>,
}

impl<N: Node> ReplySink<Answer<Acceptance>> for Raise<N> {
    fn collect(&self, node: usize, answer: Answer<Acceptance>) {
        let round = &self.round;
        let mut state = round.state();
        if state.phase == Phase::Open {
            let step = state.round.raised(node, self.token, &answer, round.clock.early());
            round.act(state, step);
        }
    }
}
