//! What the ledger records of a request when a client's code posts it, and when its answer is
//! delivered.

use std::time::Duration;

use quorumlock_protocol::{Answer, Denial, NoAnswer, Nonce, QueuedAt, ReleaseOutcome};

use super::invariants::{check_given_back, freed_by_us, leak, lemma, wake};
use super::mutants;
use super::request::{SimAnswer, SimRequest};
use super::sometimes::Sometimes;
use super::tap::Posted;
use super::trace::Who;
use super::world::State;

impl State {
    /// A client's code posts a request. `up`: the connection for callers is up. `None`: the process
    /// is dead, or the run is over.
    pub fn posted(
        &mut self,
        (client, node): (usize, usize),
        request: SimRequest,
        up: bool,
    ) -> Option<Posted> {
        if self.closed || self.processes[client].dead {
            return None;
        }
        if let SimRequest::Release(lease) = &request
            && let Some(attempt) = self.ledger.of(lease)
        {
            check_given_back(self, client, attempt);
        }
        self.observe_waiter((client, node), &request);
        if let SimRequest::Acquire(lease) = &request {
            wake::asked(self, client, &lease.claim);
        }
        let size = self.plan.nodes;
        self.ledger.posted(client, node, &request, size, self.now);
        self.note_request("post", (client, node), &request);
        self.plan_withheld_votes((client, node), &request, up);
        let first = request.leases().first().and_then(|lease| self.ledger.of(lease));
        let written = first.map_or(0, |first| self.ledger.attempts[first].nodes[node].written);
        let asked = self.processes[client].now();
        let at = self.now;
        let queued_at = None;
        Some(Posted { client, node, request, asked, at, written, queued_at, unproven: false })
    }

    /// Nobody awaits the answer to the release that was just posted.
    pub fn unasked(&mut self, node: usize, nonce: Nonce, ttl: Duration) {
        let until = self.now + 2 * self.plan.kept(ttl);
        if let Some(view) = self.ledger.view(node, nonce) {
            view.open -= 1;
            view.owed_until = until;
        }
    }

    /// An answer reaches the client's code. Returns what a planted bug makes of it; `None` if
    /// nobody hears it any more.
    pub fn delivered(&mut self, posted: &Posted, answer: SimAnswer) -> Option<SimAnswer> {
        let (client, node) = (posted.client, posted.node);
        if self.closed || self.processes[client].dead {
            return None;
        }
        self.note_late(posted);
        self.note_losses(client);
        let answer = mutants::alter(self, posted, answer);
        self.note_request("told", (client, node), &posted.request);
        self.see_answer(posted, &answer);
        self.ledger.delivered(node, &posted.request, &answer, self.now);
        for handed in posted.queued_at.iter().flat_map(QueuedAt::handoffs) {
            self.ledger.handed_off(node, handed.nonce, self.now);
            if let Some(number) = self.ledger.number(handed.nonce) {
                self.ledger.attempts[number].taken_up = true;
            }
            self.see(Sometimes::HandoffTakenUp);
        }
        if let (SimRequest::Acquire(lease), SimAnswer::Vote(vote)) = (&posted.request, &answer) {
            let granted = matches!(vote, Answer::Yes(_));
            self.trigger_withheld_votes((client, node), lease.nonce, granted, true);
        }
        Some(answer)
    }

    /// Whether the request was not sent, because the node was verified anew.
    pub fn was_not_sent(&self, posted: &Posted, answer: &SimAnswer) -> bool {
        let first = posted.request.leases().first().and_then(|lease| self.ledger.of(lease));
        let written = first.map(|first| self.ledger.attempts[first].nodes[posted.node].written);
        let stale = matches!(answer.denial(), Some(Denial::Stale(_)));
        !self.closed && stale && written == Some(posted.written)
    }

    /// Checks the per-node lemma and the clean-up after an answer.
    pub fn check_answer(&mut self, posted: &Posted) {
        if self.closed {
            return;
        }
        for lease in posted.request.leases() {
            if let Some(attempt) = self.ledger.of(lease) {
                lemma::check(self, posted.node, attempt);
                leak::check(self, posted.node, attempt);
            }
        }
    }

    fn see_answer(&mut self, posted: &Posted, answer: &SimAnswer) {
        let node = posted.node;
        let leases = posted.request.leases();
        match answer.no_answer() {
            Some(NoAnswer::NotSent(_)) => self.see(Sometimes::NeverSent),
            Some(NoAnswer::Unknown(_)) => self.see(Sometimes::MaybeSent),
            None => {}
        }
        let now = self.now;
        for lease in leases {
            let Some(number) = self.ledger.of(lease) else { continue };
            let attempt = &mut self.ledger.attempts[number];
            let view = &mut attempt.nodes[node];
            match (answer.denial(), answer.no_answer()) {
                // The client sends the release by itself once it is connected.
                (_, Some(NoAnswer::NotSent(_)))
                    if matches!(posted.request, SimRequest::Release(_)) =>
                {
                    view.owed_until = now + 2 * self.plan.kept(lease.ttl);
                }
                (_, Some(NoAnswer::Unknown(_))) => view.tainted = true,
                (Some(Denial::NotAdmitted(_)), _) => {
                    view.denied = true;
                    if attempt.granted {
                        self.ledger.seen.see(Sometimes::VoidedByQuarantine);
                    }
                }
                (Some(Denial::Stale(_)), _) if view.written == posted.written => {
                    self.ledger.seen.see(Sometimes::StaleRequest);
                }
                _ => {}
            }
        }
        let freed_before = ReleaseOutcome { held: true, forgot: false, notified: None };
        if let (SimRequest::Release(lease), SimAnswer::Freed(Answer::Yes(freed))) =
            (&posted.request, answer)
            && *freed == freed_before
        {
            self.see(Sometimes::FreedBefore);
            if let Some(number) = self.ledger.of(lease) {
                freed_by_us::check(self, node, number);
            }
        }
    }

    fn observe_waiter(&mut self, (client, node): (usize, usize), request: &SimRequest) {
        if let SimRequest::Acquire(lease) = request
            && self.ledger.of(lease).is_none()
            && self.processes[client].waits_for(node, &lease.claim)
        {
            let (message, subscribed) = std::mem::take(&mut self.processes[client].wake_ups);
            if message {
                self.see(Sometimes::NotifiedByMessage);
            } else if !subscribed {
                self.see(Sometimes::PolledByTimer);
            }
        }
    }

    fn note_request(
        &mut self,
        what: &'static str,
        (client, node): (usize, usize),
        request: &SimRequest,
    ) {
        let attempt = request.leases().first().and_then(|lease| self.ledger.of(lease));
        self.note(what, Who::both(client, node).on(attempt), request.number());
    }

    /// Notes an answer that comes after the answer timeout, when a single node's lessor no longer
    /// waits for it.
    fn note_late(&mut self, posted: &Posted) {
        let late = self.now > posted.at + self.plan.answer_timeout;
        if late && let SimRequest::Renew(leases) = &posted.request {
            for lease in leases {
                if let Some(number) = self.ledger.of(lease) {
                    self.ledger.attempts[number].late_at = self.now;
                }
            }
        }
    }
}
