use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use quorumlock_protocol::{
    Acceptance, Answer, Denial, FencingToken, HeldInterval, Hints, Incarnation, Instant, Lane,
    LeaseRequest, MAX_RAISES, Node, NodeProblem, NodeReport, Proposals, ReplyFuture, ReplySink,
    Responder, Vote, might_be_granted,
};
use quorumlock_watchdog::Clock;

use crate::votes::Votes;

/// One acquire request to one node. An attempt that is dropped without [`Attempt::keep`] releases
/// everything that the node may have granted, late grants included.
pub(crate) struct Attempt<N: Node>(Arc<Shared<N>>);

struct Shared<N> {
    node: Arc<N>,
    lease: LeaseRequest,
    /// The node's incarnation when the attempt began. Every request of the attempt carries it.
    incarnation: Incarnation,
    votes: Votes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answer: Option<Answer<Vote>>,
    waker: Option<Waker>,
    committed: bool,
    abandoned: bool,
}

impl<N: Node> Attempt<N> {
    pub(crate) fn post(
        node: Arc<N>,
        (lease, token): (LeaseRequest, FencingToken),
        hints: Hints,
        votes: Votes,
    ) -> Self {
        let (incarnation, state) = (node.incarnation(), Mutex::default());
        let shared = Arc::new(Shared { node, lease, incarnation, votes, state });
        let to = Responder::new(shared.clone(), 0);
        shared.votes.asked(0, shared.node.label());
        shared.node.acquire(&shared.lease, token, incarnation, hints, to);
        Self(shared)
    }

    /// The node's answer.
    pub(crate) async fn answer(&self) -> Answer<Vote> {
        poll_fn(|cx| {
            let mut state = self.0.state();
            match &state.answer {
                Some(answer) => Poll::Ready(answer.clone()),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Proposes larger tokens until the node accepts one, and returns that token. The node granted
    /// the name, requested at `asked`, but its mark `above` is not below the proposed token.
    /// [`Denial::Stale`] if the mark was still ahead after [`MAX_RAISES`] proposals.
    pub(crate) async fn raise(
        &self,
        mut above: FencingToken,
        mut asked: Instant,
        (proposals, clock): (&Proposals, &Clock),
    ) -> Answer<FencingToken> {
        let Shared { node, lease, incarnation, .. } = &*self.0;
        for _ in 0..MAX_RAISES {
            let now = clock.now();
            let token =
                proposals.raised(&lease.claim, above, clock.wall_micros(), now.since(asked));
            asked = now;
            let (slot, to) = ReplyFuture::new();
            node.raise(lease, token, *incarnation, to);
            match slot.await {
                // A node that counts tokens never receives a `raise`.
                Answer::Yes(Acceptance::Accepted | Acceptance::Counted(_)) => {
                    return Answer::Yes(token);
                }
                Answer::Yes(Acceptance::Behind(mark)) => above = mark,
                Answer::No(denial) => return Answer::No(denial),
                Answer::NoAnswer(no_answer) => return Answer::NoAnswer(no_answer),
            }
        }
        Answer::No(Denial::Stale(NodeReport::new(node.label(), NodeProblem::MarkAhead)))
    }

    /// The caller owns the grant from now on: dropping the attempt releases nothing.
    pub(crate) fn commit(self) {
        self.0.state().committed = true;
    }
}

impl<N: Node> Drop for Attempt<N> {
    fn drop(&mut self) {
        self.0.votes.end();
        let mut state = self.0.state();
        if state.committed {
            return;
        }
        state.abandoned = true;
        let release = state.answer.as_ref().is_none_or(might_be_granted);
        drop(state);
        if release {
            self.0.release();
        }
    }
}

impl<N: Node> Shared<N> {
    /// Uses the connection of the acquire request, so that the release cannot overtake it (H17).
    fn release(&self) {
        self.node.release(
            &self.lease,
            HeldInterval::UNKNOWN,
            Lane::Caller,
            Hints::default(),
            Responder::nobody(),
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: Node> ReplySink<Answer<Vote>> for Shared<N> {
    fn collect(&self, _from: usize, answer: Answer<Vote>) {
        self.votes.answered(0, self.node.label(), &answer);
        let mut state = self.state();
        if state.abandoned {
            drop(state);
            // After a yes nothing is left to do: the drop has posted a release behind the acquire
            // request on the same connection (H17).
            if !matches!(answer, Answer::Yes(_)) && might_be_granted(&answer) {
                self.release();
            }
            return;
        }
        state.answer = Some(answer);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
