//! A request from its post to its answer, with the rules of the real connection: the client dials at
//! the first request, dials again when the connection breaks, and breaks it when no answer comes.

use std::sync::Arc;

use quorumlock_protocol::expiry;
use quorumlock_protocol::{
    Instant, LeaseRequest, NoAnswer, NodeProblem, NodeReport, QueueAction, ReleaseOutcome,
    Responder,
};

use super::event::{Arrival, Event, Moment};
use super::invariants::{check_given_back, freed_by_us, leak, lemma};
use super::link::{Link, LinkId, Pending, Phase, UnconfirmedRelease};
use super::mutants;
use super::request::{Context, DeliveredReply, ReleaseState, Reply, SimRequest, SimResponder};
use super::sometimes::Sometimes;
use super::time::{MS, Micros, SECOND};
use super::world::{Delivery, State};

impl State {
    /// A client's code posts a request.
    pub fn post(&mut self, link: LinkId, request: SimRequest, to: SimResponder) {
        if self.closed || self.processes[link.client].dead {
            self.out.push(Delivery::Drop(Box::new(to)));
            return;
        }
        if let SimRequest::Release(lease, ..) = &request
            && let Some(attempt) = self.ledger.of(lease)
        {
            check_given_back(self, link.client, attempt);
        }
        self.observe_waiter(link, &request);
        let size = self.plan.nodes;
        self.ledger.posted(link.client, link.node, &request, size, self.now);
        self.note_request("post", link, &request);
        self.plan_withheld_votes(link, &request);
        if mutants::swallows(self, link, &request) {
            self.out.push(Delivery::Drop(Box::new(to)));
            return;
        }
        let process = &mut self.processes[link.client];
        if process.stopped {
            // The timers of a stopped client fire. Their requests wait until the client resumes.
            process.outbox.push((link, request, to));
            return;
        }
        let asked = process.clock.running();
        self.queue_request(link, request, to, asked);
    }

    pub fn queue_request(
        &mut self,
        at: LinkId,
        request: SimRequest,
        to: SimResponder,
        asked: Instant,
    ) {
        if let SimRequest::Acquire(lease, .., hints) = &request
            && let Some(offer) = hints.enqueue().and_then(|enqueue| enqueue.handoff)
        {
            let until = expiry(asked, offer.ttl, mutants::max_clock_drift(self));
            self.ledger.offered(lease.nonce, until);
        }
        let request = Arc::new(request);
        let phase = self.link(at).phase;
        if phase == Phase::Up || phase == Phase::Dialing {
            self.send_unconfirmed(at);
        }
        let now = self.now;
        let link = self.link(at);
        link.next_id += 1;
        let pending = Pending { id: link.next_id, request, to, asked, sent: now };
        match phase {
            Phase::Up => self.send_or_deny(at, pending),
            Phase::Dialing => link.waiting.push_back(pending),
            Phase::Idle => {
                link.waiting.push_back(pending);
                self.dial(at);
            }
            Phase::Down => {
                self.see(Sometimes::NeverSent);
                self.no_answer(at, pending, false);
            }
        }
    }

    pub fn send(&mut self, at: LinkId, pending: Pending) {
        let odds = self.plan.odds;
        let lost = !self.healed && self.dice.chance(odds.drop_request);
        let reordered = !self.healed && self.dice.chance(odds.reorder);
        let copied = !self.healed && self.dice.chance(odds.duplicate);
        let mut arrives = self.now + self.latency(at);
        let (cut, _) = self.cuts[self.processes[at.client].slot][at.node];
        if cut > self.now {
            // TCP retransmits until the cut is over.
            arrives += cut - self.now;
        }
        // An eviction drops the lock just before the raise. The raise is late, so that other
        // clients take the name first.
        let raises = matches!(*pending.request, SimRequest::Raise(..));
        let dawdles = raises && !self.healed && self.dice.chance(odds.evict);
        let late = match dawdles {
            true => self.dice.spread(MS, self.plan.answer_timeout * 3 / 4),
            false => 0,
        };
        let connection = self.link(at).connection;
        let (id, request) = (pending.id, pending.request.clone());
        let link = self.link(at);
        let bound = link.incarnation();
        if !reordered {
            arrives = arrives.max(link.last_out);
            link.last_out = arrives;
        }
        arrives += late;
        link.waiting.push_back(pending);
        let arrival =
            Arrival { link: at, connection, id, request: request.clone(), bound, copy: false };
        if reordered || copied || lost {
            self.taint(&request, at.node);
        }
        if copied {
            self.travels(&request, at.node);
            let later = arrives + self.dice.spread(MS, SECOND);
            self.at(later, Event::Arrive(Arrival { copy: true, ..arrival.clone() }));
        }
        if lost {
            self.note_request("lost request", at, &request);
        } else {
            self.travels(&request, at.node);
            self.at(arrives, Event::Arrive(arrival));
        }
        if !self.healed && self.dice.chance(odds.stop) {
            self.after(0, Event::Fault(Some(Moment::Sent(at.client))));
        }
        if dawdles {
            self.after(0, Event::Fault(Some(Moment::Raising(at.node, request))));
        }
        let stall = self.plan.stall();
        let link = self.link(at);
        if !std::mem::replace(&mut link.stall_timer, true) {
            link.answered = true;
            self.after(stall, Event::Stall(at, connection));
        }
    }

    /// An answer arrives at the client.
    pub fn answer(&mut self, at: LinkId, connection: u64, id: u64, reply: Reply) {
        let link = self.link(at);
        if link.connection != connection {
            return;
        }
        let Some(place) = link.waiting.iter().position(|pending| pending.id == id) else { return };
        let Some(pending) = link.waiting.remove(place) else { return };
        (link.answered, link.useful) = (true, true);
        self.note_late(&pending);
        let repeated = self.freed_before(at, &pending.request, &reply);
        let server = &self.servers[at.node];
        let with = Context {
            asked: mutants::asked(self, at.client, &pending),
            max_clock_drift: mutants::max_clock_drift(self),
            label: &server.label,
        };
        let verify = matches!(reply, Reply::Unproven);
        let reply = repeated.unwrap_or(reply);
        let granted = matches!(reply, Reply::Taken(taken) if taken.is_granted());
        let answer = pending.to.replied(&pending.request, reply, with);
        self.deliver(at, &pending.request, answer);
        self.trigger_withheld_votes(at, &pending.request, granted, true);
        if verify {
            self.see(Sometimes::UnprovenScript);
            self.broken(at, true);
        }
    }

    /// The reply that replaces "not held" for a repeated release, if an earlier request of it freed
    /// the name.
    fn freed_before(&mut self, at: LinkId, request: &SimRequest, reply: &Reply) -> Option<Reply> {
        let (
            SimRequest::Release(lease, _, ReleaseState { unconfirmed, repeat: true }),
            Reply::Freed(ReleaseOutcome { held: false, .. }),
        ) = (request, reply)
        else {
            return None;
        };
        let greeting = self.link(at).greeting();
        let process = &self.processes[at.client];
        if !unconfirmed.was_freed(greeting, &process.run_identities[at.node], process.now()) {
            return None;
        }
        self.see(Sometimes::FreedBefore);
        if let Some(number) = self.ledger.of(lease) {
            freed_by_us::check(self, at.node, number);
        }
        Some(Reply::Freed(ReleaseOutcome { held: true, notified: None }))
    }

    /// Keeps a release without an answer, to repeat it. Returns the request if its caller hears now
    /// that there is no answer.
    fn add_unconfirmed(&mut self, at: LinkId, pending: Pending, maybe: bool) -> Option<Pending> {
        let SimRequest::Release(lease, queue_action, mut asked) = (*pending.request).clone() else {
            return Some(pending);
        };
        if maybe {
            let (run_identity, now) =
                (self.link(at).greeting().run_identity, self.processes[at.client].now());
            asked.unconfirmed.written(run_identity, now);
        }
        let waits_on = asked.repeat || maybe;
        let queue_action =
            queue_action.filter(|queue_action| matches!(queue_action, QueueAction::Leave(_)));
        let until = self.processes[at.client].clock.running() + lease.ttl;
        let (to, unanswered) = match waits_on {
            true => {
                self.ledger.will_repeat(at.node, &pending.request);
                (pending.to, None)
            }
            false => {
                let nobody = SimResponder::Freed(Responder::nobody());
                (nobody, Some(pending))
            }
        };
        let release =
            UnconfirmedRelease { lease, queue_action, unconfirmed: asked.unconfirmed, to, until };
        self.processes[at.client].unconfirmed[at.node].push(release);
        unanswered
    }

    /// The client learns that there is no answer. `maybe`: the node may have received the request.
    pub fn no_answer(&mut self, at: LinkId, pending: Pending, maybe: bool) {
        if maybe {
            self.taint(&pending.request, at.node);
            self.see(Sometimes::MaybeSent);
        }
        self.note_request(if maybe { "maybe" } else { "never" }, at, &pending.request);
        let Some(pending) = self.add_unconfirmed(at, pending, maybe) else { return };
        let report = NodeReport::new(
            self.servers[at.node].label.clone(),
            NodeProblem::Broken("no answer".into()),
        );
        let no_answer = if maybe { NoAnswer::Unknown(report) } else { NoAnswer::NotSent(report) };
        let answer = pending.to.no_answer(&pending.request, no_answer);
        self.deliver(at, &pending.request, answer);
    }

    pub fn deliver(&mut self, at: LinkId, request: &SimRequest, answer: DeliveredReply) {
        self.note_losses(at.client);
        for answer in mutants::bend(self, at, request, answer) {
            self.ledger.delivered(at.node, request, &answer, self.now);
            self.note_request("told", at, request);
            self.out.push(Delivery::Reply(answer));
        }
        mutants::frees_unheard(self, at, request);
        let attempts = request.leases().iter().filter_map(|lease| self.ledger.of(lease));
        let attempts = attempts.collect::<Vec<_>>();
        self.out.push(Delivery::Then(Box::new(move |world| {
            world.with(|state| check_answer(state, at.node, &attempts));
        })));
    }

    /// Checks a connection with open requests. Breaks it if no answer came since the last check.
    pub fn stall(&mut self, at: LinkId, connection: u64) {
        let (now, stall) = (self.now, self.plan.stall());
        let link = self.link(at);
        if link.connection != connection {
            return;
        }
        if link.waiting.is_empty() {
            link.stall_timer = false;
            return;
        }
        if !std::mem::take(&mut link.answered) {
            self.broken(at, false);
            return;
        }
        // The simulation loses single messages, which TCP never does. These requests get no answer.
        while let Some(oldest) = self.link(at).waiting.front()
            && oldest.sent + stall <= now
            && let Some(oldest) = self.link(at).waiting.pop_front()
        {
            self.no_answer(at, oldest, true);
        }
        self.after(stall, Event::Stall(at, connection));
    }

    pub fn send_unconfirmed(&mut self, at: LinkId) {
        let process = &mut self.processes[at.client];
        let now = process.clock.running();
        let releases = std::mem::take(&mut process.unconfirmed[at.node]);
        for release in releases {
            if release.until > now {
                self.see(Sometimes::ReleaseRepeated);
                let lease = LeaseRequest { ttl: release.until.since(now), ..release.lease };
                let link = self.link(at);
                link.next_id += 1;
                let (id, sent) = (link.next_id, self.now);
                let asked = ReleaseState { unconfirmed: release.unconfirmed, repeat: true };
                let request = Arc::new(SimRequest::Release(lease, release.queue_action, asked));
                self.ledger.posted(at.client, at.node, &request, self.plan.nodes, sent);
                let pending = Pending { id, request, to: release.to, asked: now, sent };
                match self.link(at).phase {
                    Phase::Up => self.send(at, pending),
                    _ => self.link(at).waiting.push_back(pending),
                }
            } else {
                self.out.push(Delivery::Drop(Box::new(release.to)));
            }
        }
    }

    pub fn link(&mut self, at: LinkId) -> &mut Link {
        &mut self.processes[at.client].links[at.node][at.lane as usize]
    }

    /// When an answer that the node sends now arrives at the client.
    pub fn answer_at(&mut self, at: LinkId) -> Micros {
        let mut arrives = self.now + self.latency(at);
        let (_, cut) = self.cuts[self.processes[at.client].slot][at.node];
        if cut > self.now {
            arrives += cut - self.now;
        }
        let reordered = !self.healed && self.dice.chance(self.plan.odds.reorder);
        let link = self.link(at);
        if !reordered {
            arrives = arrives.max(link.last_in);
            link.last_in = arrives;
        }
        arrives
    }

    pub fn leads_to(&mut self, arrival: &Arrival) -> (bool, bool) {
        let run = self.servers[arrival.link.node].run.number;
        let link = self.link(arrival.link);
        (link.connection == arrival.connection, link.run == run)
    }

    pub fn connection(&mut self, at: LinkId) -> u64 {
        self.link(at).connection
    }
}

/// Checks the per-node lemma and the clean-up after an answer to these attempts.
fn check_answer(state: &mut State, node: usize, attempts: &[usize]) {
    for attempt in attempts {
        lemma::check(state, node, *attempt);
        leak::check(state, node, *attempt);
    }
}
