use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_protocol::telemetry::EventHandler;
use quorumlock_watchdog::{Clock, Renewal};

use crate::attempt::Attempt;
use crate::deadline::answer_deadline;
use crate::votes::Votes;
use crate::{Admission, Lessor, RenewalProblems, list_step};
use quorumlock_protocol::{
    Acceptance, Acquired, Answer, BoxFuture, Claim, Denial, Error, FencingToken, Grant,
    HeldInterval, Hints, Holder, Lane, LeaseRequest, ListPosition, ListStep, Name, NoMajority,
    Node, NodeProblem, NodeReport, Proposals, ReleaseOutcome, ReplyFuture, Responder, Vote,
    WaitQueue,
};

/// One node as a lessor: the nonce that the node holds has the lock (SAFETY.md G1).
pub struct Single<N> {
    node: Arc<N>,
    clock: Clock,
    answer_timeout: Duration,
    proposals: Arc<Proposals>,
    renewal_problems: RenewalProblems,
    /// `Some` if the node counts only while its memory is proven.
    admission: Option<Arc<dyn Admission>>,
    on_event: Option<EventHandler>,
}

impl<N: Node> Single<N> {
    /// Locks on `node` alone.
    pub fn new(node: impl Into<Arc<N>>, clock: Clock, answer_timeout: Duration) -> Self {
        Self {
            node: node.into(),
            clock,
            answer_timeout,
            proposals: Arc::new(Proposals::new()),
            renewal_problems: RenewalProblems::default(),
            on_event: None,
            admission: None,
        }
    }

    /// Tells `handler` what the node answers. Default: none.
    #[must_use]
    pub fn on_event(self, handler: Option<EventHandler>) -> Self {
        Self { on_event: handler, ..self }
    }

    /// The node, which proves its memory in each vote, counts only while `admission` has admitted it
    /// (SAFETY.md A3).
    #[must_use]
    pub fn with_admission(self, admission: Arc<dyn Admission>) -> Self {
        Self { admission: Some(admission), ..self }
    }

    /// Makes one attempt.
    fn attempt(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>> {
        let (node, proposals, asked) =
            (self.node.clone(), self.proposals.clone(), self.clock.now());
        proposals.compare_clocks(node.wall_offset().into_iter());
        let token = if fencing {
            proposals.first(&lease.claim, self.clock.wall_micros())
        } else {
            FencingToken::NONE
        };
        let name = lease.claim.label();
        let votes = Votes::new(self.on_event.as_ref(), &self.clock);
        let attempt = Attempt::post(node.clone(), (lease, token), hints, votes);
        let (clock, within) = (self.clock.clone(), self.answer_timeout);
        Box::pin(async move {
            let connected = || node.connected_since(Lane::Caller);
            let answer = answer_deadline(within, &clock, connected, attempt.answer()).await;
            let (until, token, counted) = match answer {
                None => return Err(unanswered(&*node, name, within)),
                Some(Answer::Yes(Vote { until, token: Acceptance::Accepted })) => {
                    (until, token, false)
                }
                Some(Answer::Yes(Vote { until, token: Acceptance::Counted(token) })) => {
                    (until, token, true)
                }
                Some(Answer::Yes(Vote { until, token: Acceptance::Behind(mark) })) => {
                    let raised = attempt.raise(mark, asked, (&proposals, &clock));
                    match answer_deadline(within, &clock, connected, raised).await {
                        None => return Err(unanswered(&*node, name, within)),
                        Some(Answer::Yes(raised)) => (until, raised, false),
                        Some(Answer::No(Denial::Stale(_) | Denial::Gone)) => {
                            return Ok(Acquired::Retry);
                        }
                        Some(other) => return Err(failure(&*node, name, other)),
                    }
                }
                Some(Answer::No(Denial::Stale(_))) => return Ok(Acquired::Retry),
                Some(Answer::No(Denial::Busy(remaining))) => {
                    return Ok(Acquired::Busy(remaining));
                }
                Some(other) => return Err(failure(&*node, name, other)),
            };
            // Checked after the last answer: a pause while acquiring is caught here (H3).
            if clock.now() < until {
                attempt.commit();
                return Ok(Acquired::Granted(Grant { until, token, counted }));
            }
            Err(no_vote(name, NodeReport::new(node.label(), NodeProblem::TooLate)))
        })
    }

    /// Posts a request on [`Lane::Caller`] and waits for its definite answer, at most for the
    /// answer timeout.
    fn ask<T: Send + 'static>(
        &self,
        name: Name,
        post: impl FnOnce(&N, Responder<Answer<T>>),
    ) -> BoxFuture<Result<T, Error>> {
        let (slot, to) = ReplyFuture::new();
        post(&self.node, to);
        let (node, clock, within) = (self.node.clone(), self.clock.clone(), self.answer_timeout);
        Box::pin(async move {
            let connected = || node.connected_since(Lane::Caller);
            let answer = answer_deadline(within, &clock, connected, slot).await;
            definite(&*node, name, within, answer)
        })
    }
}

impl<N: Node> Lessor for Single<N> {
    fn nodes(&self) -> usize {
        1
    }

    fn acquire(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>> {
        let acquired = self.attempt(lease, fencing, hints);
        let (admission, node, within) =
            (self.admission.clone(), self.node.clone(), self.answer_timeout);
        Box::pin(async move {
            let acquired = acquired.await;
            // This process may end now: what the node granted, and what does not count, would stay for a
            // lease. The attempt has posted its release.
            if let Err(Error::Refused(_)) = &acquired {
                let (slot, to) = ReplyFuture::new();
                // Requests of a lane are answered in order.
                node.renew(&[], Lane::Caller, to);
                let _: Result<Vec<Answer<Instant>>, _> = tokio::time::timeout(within, slot).await;
            }
            // The next process may end, too: each brings the node a step on.
            if let (Err(Error::Refused(_) | Error::Unreachable(_)), Some(admission)) =
                (&acquired, admission)
            {
                admission.pass().await;
            }
            acquired
        })
    }

    fn renew(&self, leases: Vec<LeaseRequest>, lane: Lane) -> BoxFuture<Vec<Renewal>> {
        let (slot, to) = ReplyFuture::new();
        if lane == Lane::Watchdog {
            self.renewal_problems.asked(0, self.node.label(), self.clock.now());
        }
        self.node.renew(&leases, lane, to);
        let within = match lane {
            Lane::Caller => self.answer_timeout,
            // A late yes still extends the lease while the window is open: a slow node loses no
            // lock.
            Lane::Watchdog => self.answer_timeout * MAX_RENEWAL_TIMEOUTS,
        };
        let problems = (lane == Lane::Watchdog).then(|| self.renewal_problems.clone());
        Box::pin(async move {
            let answers: Vec<Answer<Instant>> =
                tokio::time::timeout(within, slot).await.unwrap_or_default();
            if let (Some(problems), false) = (problems, answers.is_empty()) {
                problems.answered(0, &answers);
            }
            let known = answers.into_iter().map(|answer| match answer {
                Answer::Yes(until) => Renewal::Until(until),
                Answer::No(Denial::Gone | Denial::NotAdmitted(_)) => Renewal::Gone,
                // The server did not say that the lock is gone: its lease still runs.
                _ => Renewal::Unknown,
            });
            known.chain(std::iter::repeat(Renewal::Unknown)).take(leases.len()).collect()
        })
    }

    fn renewal_problems(&self) -> Vec<NodeReport> {
        self.renewal_problems.all(self.clock.now())
    }

    fn release(
        &self,
        lease: LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
    ) -> BoxFuture<Result<ReleaseOutcome, Error>> {
        let (slot, to) = ReplyFuture::new();
        self.node.release(&lease, held, lane, hints, to);
        // Twice the time: if the connection breaks, the release is sent again.
        let (node, within) = (self.node.clone(), self.answer_timeout * 2);
        Box::pin(async move {
            definite(
                &*node,
                lease.claim.label(),
                within,
                tokio::time::timeout(within, slot).await.ok(),
            )
        })
    }

    fn list(&self, _node: usize, at: ListPosition) -> BoxFuture<Result<ListStep, Error>> {
        list_step(&self.node, at, &self.clock, self.answer_timeout)
    }

    fn inspect(&self, claim: Claim) -> BoxFuture<Result<Option<Holder>, Error>> {
        self.ask(claim.label(), |node, to| node.inspect(&claim, to))
    }

    fn force_release(&self, claim: Claim, of: Option<String>) -> BoxFuture<Result<bool, Error>> {
        self.ask(claim.label(), |node, to| node.force_release(&claim, of.as_deref(), to))
    }

    fn home(&self, _name: &Name) -> Option<usize> {
        Some(0)
    }

    fn shard(&self, name: &Name) -> u64 {
        self.node.shard(name)
    }

    fn drain(&self, lane: Lane) -> BoxFuture<()> {
        // Requests of a lane are answered in order: an empty renewal is answered last.
        let renewed = self.renew(Vec::new(), lane);
        let admission = self.admission.clone().filter(|_| lane == Lane::Caller);
        Box::pin(async move {
            drop(renewed.await);
            if let Some(admission) = admission {
                admission.pass().await;
            }
        })
    }

    fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.clone()
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        self.node.wait_queue()
    }
}

/// In answer timeouts. This is longer than a connection waits for any answer.
const MAX_RENEWAL_TIMEOUTS: u32 = 4;

impl<N: Node> fmt::Debug for Single<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single").field("node", &self.node.label()).finish_non_exhaustive()
    }
}

fn definite<T>(
    node: &impl Node,
    name: Name,
    within: Duration,
    answer: Option<Answer<T>>,
) -> Result<T, Error> {
    match answer {
        Some(Answer::Yes(value)) => Ok(value),
        Some(other) => Err(failure(node, name, other)),
        None => Err(unanswered(node, name, within)),
    }
}

fn unanswered(node: &impl Node, name: Name, within: Duration) -> Error {
    no_vote(name, NodeReport::new(node.label(), NodeProblem::NoAnswer(within)))
}

fn failure<T>(node: &impl Node, name: Name, answer: Answer<T>) -> Error {
    match answer {
        Answer::No(Denial::Config(error)) => error.into(),
        Answer::No(
            Denial::Refused(report) | Denial::NotAdmitted(report) | Denial::Stale(report),
        ) => no_vote(name, report),
        Answer::NoAnswer(no_answer) => no_vote(name, no_answer.report().clone()),
        Answer::Yes(_) | Answer::No(Denial::Busy(_) | Denial::Gone) => {
            let malformed = NodeProblem::Malformed("a yes or no to another question".into());
            no_vote(name, NodeReport::new(node.label(), malformed))
        }
    }
}

fn no_vote(name: Name, report: NodeReport) -> Error {
    NoMajority::new(Some(name), (1, 1), 0, vec![report]).into()
}
