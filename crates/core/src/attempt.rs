use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::{
    Acceptance, Answer, Clock, Collect, Denial, Fence, Held, InLine, Instant, Lane, Node,
    NodeProblem, NodeReport, Proposal, Proposals, ReplyTo, Silence, Slot, Stamp, Term, Vote,
};

/// One acquire request to one node. Unless [kept](Attempt::keep), everything that it might have
/// been granted is released when it is dropped, late grants included.
pub(crate) struct Attempt<N: Node>(Arc<Shared<N>>);

struct Shared<N> {
    node: Arc<N>,
    term: Term,
    /// Of the node when the attempt began: all that it asks rests on this.
    stamp: Stamp,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answer: Option<Answer<Vote>>,
    waker: Option<Waker>,
    kept: bool,
    abandoned: bool,
}

impl<N: Node> Attempt<N> {
    pub(crate) fn post(
        node: Arc<N>,
        term: Term,
        proposal: Proposal,
        in_line: Option<InLine>,
    ) -> Self {
        let stamp = node.stamp();
        let shared = Arc::new(Shared { node, term, stamp, state: Mutex::default() });
        let to = ReplyTo::new(shared.clone(), 0);
        shared.node.acquire(&shared.term, proposal, stamp, in_line, to);
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

    /// Since the node has granted the name, which was asked for at `asked`, at the mark `above`, and did not accept
    /// the token: the larger one that it accepts. [`Denial::Stale`] if others moved the mark again and again.
    pub(crate) async fn raise(
        &self,
        mut above: Fence,
        mut asked: Instant,
        (proposals, clock): (&Proposals, &Clock),
    ) -> Answer<Fence> {
        let Shared { node, term, stamp, .. } = &*self.0;
        for _ in 0..MOST_RAISES {
            let now = clock.now();
            let token = proposals.raised(&term.name, above, now.since(asked));
            asked = now;
            let (slot, to) = Slot::new();
            node.raise(term, token, *stamp, to);
            match slot.await {
                Answer::Yes(Acceptance::Accepted) => return Answer::Yes(token),
                Answer::Yes(Acceptance::Behind(mark)) => above = mark,
                Answer::No(denial) => return Answer::No(denial),
                Answer::Silent(silence) => return Answer::Silent(silence),
            }
        }
        Answer::No(Denial::Stale(NodeReport::new(node.label(), NodeProblem::MarkAhead)))
    }

    /// From now on somebody else owns what was granted.
    pub(crate) fn keep(self) {
        self.0.state().kept = true;
    }
}

impl<N: Node> Drop for Attempt<N> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.kept {
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
    /// On the acquire's connection, so that it cannot overtake it (H17).
    fn release(&self) {
        self.node.release(&self.term, Held::UNKNOWN, Lane::Work, None, ReplyTo::nobody());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: Node> Collect<Answer<Vote>> for Shared<N> {
    fn collect(&self, _from: usize, answer: Answer<Vote>) {
        let mut state = self.state();
        if state.abandoned {
            drop(state);
            // After a yes comes the release that was posted when it was abandoned (H17).
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

/// How often another token is proposed for what the nodes have granted, before it is released and begun again.
pub const MOST_RAISES: u32 = 3;

/// Everything but a definite refusal. An error of the server may have come after its first write, and
/// where a transaction finds a memory that is not the one verified, it has set the name all the same.
pub fn might_be_granted<T>(answer: &Answer<T>) -> bool {
    match answer {
        Answer::Yes(_)
        | Answer::No(Denial::Refused(_) | Denial::Stale(_))
        | Answer::Silent(Silence::Maybe(_)) => true,
        Answer::No(Denial::Busy(_) | Denial::Gone | Denial::Config(_) | Denial::NotAdmitted(_))
        | Answer::Silent(Silence::Never(_)) => false,
    }
}
