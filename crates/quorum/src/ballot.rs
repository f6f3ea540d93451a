use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use quorumlock_core::{
    Acceptance, Acquired, Answer, Clock, Collect, Denial, Error, Fence, Held, InLine, Instant,
    Lane, Node, Proposal, Proposals, ReplyTo, Spot, Stamp, Term, Vote, answer_within,
    might_be_granted,
};

use crate::gate::Pace;
use crate::roll::Roll;
use crate::round::{Round, Step};
use crate::top_up::top_up;

/// Carries out one [`Round`]: asks all nodes at once, decides at the majority, waits for no
/// straggler. Unless it is won, everything that might have been granted is released when it is
/// dropped, late grants included.
pub(crate) struct Ballot<N: Node>(Arc<Shared<N>>);

struct Shared<N: Node> {
    nodes: Arc<[N]>,
    term: Term,
    /// Of each node when the round began: all that it asks rests on these (model M8e).
    stamps: Vec<Stamp>,
    wish: Wish,
    /// Where it stands in line: at the other nodes only if this one does not answer (SAFETY.md d1).
    gate: Option<usize>,
    pace: Pace,
    clock: Clock,
    proposals: Arc<Proposals>,
    roll: Roll,
    state: Mutex<State>,
    me: Weak<Self>,
}

/// How nodes are asked, beside the term.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) proposal: Proposal,
    pub(crate) in_line: Option<InLine>,
}

struct State {
    round: Round,
    phase: Phase,
    /// When a token was last proposed.
    proposed: Instant,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Open,
    Decided,
    /// Won with this token and handed on: late grants are votes of a lease that stands.
    Kept(Fence),
    /// Not won: whoever asked waits on, if it stood in line.
    Lost,
    Abandoned,
}

impl<N: Node> Ballot<N> {
    pub(crate) fn open(
        nodes: &Arc<[N]>,
        term: Term,
        round: Round,
        (wish, gate): (Wish, Option<usize>),
        pace: &Pace,
        (clock, proposals): (&Clock, &Arc<Proposals>),
        roll: &Roll,
    ) -> Self {
        let asked = round.asked();
        let state = State { round, phase: Phase::Open, proposed: clock.early(), waker: None };
        let shared = Arc::new_cyclic(|me| Shared {
            nodes: nodes.clone(),
            term,
            stamps: nodes.iter().map(Node::stamp).collect(),
            wish,
            gate,
            pace: pace.clone(),
            clock: clock.clone(),
            proposals: proposals.clone(),
            roll: roll.clone(),
            state: Mutex::new(state),
            me: me.clone(),
        });
        shared.ask(asked, wish, gate);
        Self(shared)
    }

    /// The decision, no later than `within` that time of when all nodes could be asked.
    pub(crate) async fn decision(self, within: Duration) -> Result<Acquired, Error> {
        let decided = poll_fn(|cx| {
            let mut state = self.0.state();
            if state.phase == Phase::Decided {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        let connected = || connected_since(&self.0.nodes, Lane::Work, |_| true);
        let in_time = answer_within(within, &self.0.clock, connected, async {
            if self.0.state().round.is_gated() {
                self.pass_gate().await;
            }
            decided.await;
        });
        let in_time = in_time.await.is_some();
        let now = self.0.clock.now();
        let mut state = self.0.state();
        let stragglers = state.round.unanswered();
        // Judged once more, now: the answer may have lain here while we were paused (H3).
        match state.round.close(now) {
            Step::Won(grant) => {
                let window = state.round.window();
                self.0.roll.enter(self.0.term.nonce, window, grant.fence, stragglers);
                state.phase = Phase::Kept(grant.fence);
                let stale = state.round.stale();
                drop(state);
                self.0.top_up(grant.fence, stale);
                Ok(Acquired::Yes(grant))
            }
            _ => {
                let waited = (!in_time).then_some(within);
                let label = |node: usize| self.0.nodes[node].label().to_owned();
                let failure = state.round.failure(Some(&self.0.term.name), waited, label);
                if let Ok(Acquired::Busy(_)) = failure {
                    state.phase = Phase::Lost;
                }
                failure
            }
        }
    }
}

/// Since when all those of the nodes can be asked that matter; `None` while one of them is being
/// connected.
pub(crate) fn connected_since<N: Node>(
    nodes: &[N],
    lane: Lane,
    matters: impl Fn(usize) -> bool,
) -> Option<Instant> {
    let nodes = nodes.iter().enumerate().filter(|(node, _)| matters(*node));
    nodes
        .map(|(_, node)| node.connected_since(lane))
        .try_fold(Instant::NEVER, |last, since| since.map(|since| last.max(since)))
}

impl<N: Node> Ballot<N> {
    /// Until the gate has answered, or has had its time: a dead one keeps nobody out.
    async fn pass_gate(&self) {
        let begun = self.0.clock.now();
        let passed = poll_fn(|cx| {
            let mut state = self.0.state();
            if state.phase == Phase::Decided || !state.round.is_gated() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        if tokio::time::timeout(self.0.pace.patience(), passed).await.is_err() {
            self.0.fan_out();
        }
        self.0.pace.note(self.0.clock.now().since(begun));
    }
}

impl<N: Node> Drop for Ballot<N> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Phase::Kept(_) = state.phase {
            return;
        }
        let stays = self.0.wish.in_line.filter(|_| state.phase == Phase::Lost);
        state.phase = Phase::Abandoned;
        let held: Vec<_> = (0..self.0.nodes.len()).filter(|n| state.round.may_hold(*n)).collect();
        drop(state);
        for node in held {
            // It has had its turn in vain, and so would the next one: others hold the name, and wake
            // somebody at the gate when they give it back.
            let stays = stays.filter(|_| self.0.gate.is_none_or(|gate| gate == node));
            let spot = stays.map(|in_line| Spot::Kept(in_line.waited));
            let (term, held) = (&self.0.term, Held::UNKNOWN);
            self.0.nodes[node].release(term, held, Lane::Work, spot, ReplyTo::nobody());
        }
    }
}

impl<N: Node> Shared<N> {
    /// On the acquire's connection, so that it cannot overtake it (H17).
    fn release(&self, node: usize) {
        self.nodes[node].release(&self.term, Held::UNKNOWN, Lane::Work, None, ReplyTo::nobody());
    }

    /// Nodes that were verified meanwhile have a share in the lease at once, not only at its renewal.
    fn top_up(&self, fence: Fence, lacking: Vec<usize>) {
        // Not after it was given back.
        if self.roll.lacking(self.term.nonce, self.clock.now()).is_some() {
            top_up(&self.nodes, &self.roll, &self.term, fence, Lane::Work, lacking);
        }
    }

    /// Whoever asks stands in line at the `gate` alone, or at all `nodes`.
    fn ask(self: &Arc<Self>, nodes: Vec<usize>, wish: Wish, gate: Option<usize>) {
        for node in nodes {
            let to = ReplyTo::new(self.clone(), node);
            let Wish { mut proposal, mut in_line } = wish;
            if in_line.is_some() && gate.is_some_and(|gate| gate != node) {
                // Nobody waits there. Others want the name: no mark moves for us in vain.
                (proposal.alone, proposal.by_script, in_line) = (true, true, None);
            }
            self.nodes[node].acquire(&self.term, proposal, self.stamps[node], in_line, to);
        }
    }

    fn fan_out(self: &Arc<Self>) {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return;
        }
        let nodes = state.round.fan_out();
        let gate = self.gate.filter(|_| state.round.has_gate());
        let waker = state.waker.take();
        drop(state);
        // Whether others go first is for the gate to say.
        let in_line = self.wish.in_line.map(|in_line| InLine { others_first: false, ..in_line });
        self.ask(nodes.clone(), Wish { in_line, ..self.wish }, gate);
        if self.state().phase == Phase::Abandoned {
            // Just now, maybe before they were asked.
            nodes.into_iter().for_each(|node| self.release(node));
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
                let token = self.proposals.raised(&self.term.name, mark, took);
                let step = state.round.propose(token, now);
                self.act(state, step);
            }
            Step::Raise(token, nodes) => {
                drop(state);
                let Some(me) = self.me.upgrade() else { return };
                for node in nodes {
                    let to = ReplyTo::new(Arc::new(Raise { token, round: me.clone() }), node);
                    self.nodes[node].raise(&self.term, token, self.stamps[node], to);
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

impl<N: Node> Collect<Answer<Vote>> for Shared<N> {
    fn collect(&self, node: usize, answer: Answer<Vote>) {
        let mut state = self.state();
        match state.phase {
            // An early instant will do: whether a round is won is judged once more.
            Phase::Open => {
                let step = state.round.heard(node, answer, self.clock.early());
                self.act(state, step);
            }
            // Not yet looked at: it may still be a vote, and must not be forgotten.
            Phase::Decided | Phase::Lost => {
                state.round.heard(node, answer, self.clock.early());
            }
            Phase::Kept(fence) => {
                drop(state);
                let stands = self.roll.note_straggler(self.term.nonce, node, &answer);
                if !stands && might_be_granted(&answer) {
                    self.release(node);
                } else if let Answer::No(Denial::Stale(_)) = answer {
                    self.top_up(fence, vec![node]);
                }
            }
            Phase::Abandoned => {
                drop(state);
                // After a yes comes the release that was posted when it was abandoned (H17).
                if !matches!(answer, Answer::Yes(_)) && might_be_granted(&answer) {
                    self.release(node);
                }
            }
        }
    }
}

/// What nodes answer that were asked to accept another token.
struct Raise<N: Node> {
    token: Fence,
    round: Arc<Shared<N>>,
}

impl<N: Node> Collect<Answer<Acceptance>> for Raise<N> {
    fn collect(&self, node: usize, answer: Answer<Acceptance>) {
        let round = &self.round;
        let mut state = round.state();
        if state.phase == Phase::Open {
            let step = state.round.raised(node, self.token, &answer, round.clock.early());
            round.act(state, step);
        }
    }
}
