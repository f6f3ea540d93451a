use std::sync::Arc;
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant, Renewal};

use crate::attempt::Attempt;
use crate::patience::answer_within;
use crate::{
    Acceptance, Acquired, Answer, Approach, Asked, Collect, Denial, Error, Fence, Freed, Grant,
    Held, Holder, Lane, Lessor, Listening, Name, News, NoMajority, Node, NodeProblem, NodeReport,
    Nonce, Offer, Proposal, Proposals, ReplyTo, Slot, Spot, Term, Vote,
};

/// One node as a lessor: whoever holds its one vote holds the lock (SAFETY.md G1).
#[derive(Debug)]
pub struct Single<N> {
    node: Arc<N>,
    clock: Clock,
    answer_timeout: Duration,
    proposals: Arc<Proposals>,
}

impl<N: Node> Single<N> {
    /// Locks on `node` alone.
    pub fn new(node: N, clock: Clock, answer_timeout: Duration) -> Self {
        let proposals = Arc::new(Proposals::new(clock.clone()));
        Self { node: Arc::new(node), clock, answer_timeout, proposals }
    }

    /// Posts a request on [`Lane::Work`] and waits for its definite answer, no longer than the
    /// answer timeout.
    fn ask<T: Send + 'static>(
        &self,
        name: Name,
        post: impl FnOnce(&N, ReplyTo<Answer<T>>),
    ) -> Asked<Result<T, Error>> {
        let (slot, to) = Slot::new();
        post(&self.node, to);
        let (node, clock, within) = (self.node.clone(), self.clock.clone(), self.answer_timeout);
        Box::pin(async move {
            let connected = || node.connected_since(Lane::Work);
            let answer = answer_within(within, &clock, connected, slot).await;
            definite(&*node, name, within, answer)
        })
    }

    /// Posts a release, which is asked again if the connection breaks: and so it has twice the
    /// time.
    fn give_back(
        &self,
        name: Name,
        post: impl FnOnce(&N, ReplyTo<Answer<Freed>>),
    ) -> Asked<Result<Freed, Error>> {
        let (slot, to) = Slot::new();
        post(&self.node, to);
        let (node, within) = (self.node.clone(), self.answer_timeout * 2);
        Box::pin(async move {
            definite(&*node, name, within, tokio::time::timeout(within, slot).await.ok())
        })
    }
}

impl<N: Node> Lessor for Single<N> {
    fn nodes(&self) -> usize {
        1
    }

    fn acquire(&self, term: Term, approach: Approach) -> Asked<Result<Acquired, Error>> {
        let (node, proposals) = (self.node.clone(), self.proposals.clone());
        let Approach { asked, fencing, alone, by_script, in_line, .. } = approach;
        proposals.compare_clocks(node.wall_offset().into_iter());
        let token = if fencing { proposals.first(&term.name) } else { Fence::NONE };
        let proposal = Proposal { token, alone, by_script };
        let name = term.name.clone();
        let attempt = Attempt::post(node.clone(), term, proposal, in_line);
        let (clock, within) = (self.clock.clone(), self.answer_timeout);
        Box::pin(async move {
            let connected = || node.connected_since(Lane::Work);
            let answer = answer_within(within, &clock, connected, attempt.answer()).await;
            let (until, fence) = match answer {
                None => return Err(unanswered(&*node, name, within)),
                Some(Answer::Yes(Vote { until, token: Acceptance::Accepted })) => (until, token),
                Some(Answer::Yes(Vote { until, token: Acceptance::Behind(mark) })) => {
                    let raised = attempt.raise(mark, asked, (&proposals, &clock));
                    match answer_within(within, &clock, connected, raised).await {
                        None => return Err(unanswered(&*node, name, within)),
                        Some(Answer::Yes(raised)) => (until, raised),
                        Some(Answer::No(Denial::Stale(_) | Denial::Gone)) => {
                            return Ok(Acquired::Again);
                        }
                        Some(other) => return Err(failure(&*node, name, other)),
                    }
                }
                Some(Answer::No(Denial::Stale(_))) => return Ok(Acquired::Again),
                Some(Answer::No(Denial::Busy(remaining))) => {
                    return Ok(Acquired::KeptOut(remaining));
                }
                Some(other) => return Err(failure(&*node, name, other)),
            };
            // Checked after the last answer: a pause while acquiring is caught here (H3).
            if clock.now() < until {
                attempt.keep();
                return Ok(Acquired::Yes(Grant { until, fence }));
            }
            Err(no_vote(name, NodeReport::new(node.label(), NodeProblem::TooLate)))
        })
    }

    fn renew(&self, terms: Vec<Term>, lane: Lane) -> Asked<Vec<Renewal>> {
        let (slot, to) = Slot::new();
        self.node.renew(&terms, lane, to);
        let within = match lane {
            Lane::Work => self.answer_timeout,
            // A late yes is as good as any, while the window is open: a gray node loses no lock.
            Lane::Keep => self.answer_timeout * PATIENT,
        };
        Box::pin(async move {
            let answers: Vec<Answer<Instant>> =
                tokio::time::timeout(within, slot).await.unwrap_or_default();
            let known = answers.into_iter().map(|answer| match answer {
                Answer::Yes(until) => Renewal::Until(until),
                Answer::No(Denial::Gone | Denial::NotAdmitted(_)) => Renewal::Gone,
                // The server did not say that the lock is gone: its lease still runs.
                _ => Renewal::Unknown,
            });
            known.chain(std::iter::repeat(Renewal::Unknown)).take(terms.len()).collect()
        })
    }

    fn release(&self, term: Term, held: Held, lane: Lane, _: bool) -> Asked<Result<Freed, Error>> {
        self.give_back(term.name.clone(), |node, to| node.release(&term, held, lane, None, to))
    }

    fn bump(
        &self,
        term: Term,
        held: Held,
        (nonce, offer): (Nonce, Offer),
    ) -> Asked<Result<Freed, Error>> {
        let spot = Some(Spot::Again(nonce, offer));
        self.give_back(term.name.clone(), |node, to| {
            node.release(&term, held, Lane::Work, spot, to);
        })
    }

    fn inspect(&self, name: Name) -> Asked<Result<Option<Holder>, Error>> {
        self.ask(name.clone(), |node, to| node.inspect(&name, to))
    }

    fn force_release(&self, name: Name) -> Asked<Result<bool, Error>> {
        self.ask(name.clone(), |node, to| node.force_release(&name, to))
    }

    fn gate(&self, _name: &Name) -> Option<usize> {
        Some(0)
    }

    fn settle(&self, lane: Lane) -> Asked<()> {
        // Requests of a lane are answered in order: an empty renewal is answered last.
        let renewed = self.renew(Vec::new(), lane);
        Box::pin(async move { drop(renewed.await) })
    }

    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>) {
        self.node.leave(name, offered);
    }

    fn hands_over(&self) -> bool {
        self.node.hands_over()
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<News>>) -> Listening {
        self.node.listen(name, to, 0)
    }
}

/// Longer than a connection waits for any answer.
const PATIENT: u32 = 4;

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
        Answer::Silent(silence) => no_vote(name, silence.report().clone()),
        Answer::Yes(_) | Answer::No(Denial::Busy(_) | Denial::Gone) => {
            let odd = NodeProblem::Malformed("a yes or no to another question".into());
            no_vote(name, NodeReport::new(node.label(), odd))
        }
    }
}

fn no_vote(name: Name, report: NodeReport) -> Error {
    NoMajority::new(Some(name), (1, 1), 0, vec![report]).into()
}
