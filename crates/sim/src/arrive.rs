//! The execution of a request at its node, and the messages from nodes to subscribers.

use std::sync::Arc;

use quorumlock_protocol::{Lane, Name, ReleaseOutcome, RemoteGrant, Responder, WaitEvent};

use super::bug::Bug;
use super::event::{Arrival, Event};
use super::invariants::leak;
use super::ledger::View;
use super::link::LinkId;
use super::request::{Reply, SimRequest, SimResponder};
use super::server::{Effects, NotifiedWaiter};
use super::sometimes::Sometimes;
use super::store::Raised;
use super::time::MS;
use super::trace::Who;
use super::world::{Delivery, State};

impl State {
    /// A request reaches its node.
    pub fn arrive(&mut self, arrival: Arrival) {
        let node = arrival.link.node;
        let (current, same_run) = self.leads_to(&arrival);
        let server = &mut self.servers[node];
        if server.run.down {
            self.vanishes(&arrival);
        } else if server.run.stopped {
            server.run.backlog.push(arrival);
        } else if !same_run {
            // A new process answers data for an old connection by closing it.
            self.vanishes(&arrival);
            if current {
                let link = arrival.link;
                let delay = self.latency(link);
                self.after(delay, Event::Broken(link, arrival.connection));
            }
        } else if !current && self.dice.chance(0.5) {
            self.vanishes(&arrival);
        } else {
            if !current {
                // A cut has delayed the request. Its client has given up the connection meanwhile.
                self.taint(&arrival.request, node);
            }
            self.execute(arrival, current);
        }
    }

    fn execute(&mut self, arrival: Arrival, current: bool) {
        let Arrival { link, connection, id, request, bound, copy } = arrival;
        let (now, wire) = (self.now, self.plan.wire);
        for lease in request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                let view = &mut self.ledger.attempts[number].nodes[link.node];
                let late = view.last == "release" && matches!(&*request, SimRequest::Acquire(..));
                view.travelling -= 1;
                view.last = request.verb();
                if late {
                    self.see(Sometimes::ExecutedAfterRelease);
                }
            }
        }
        let as_whom = (link.client, wire);
        let was =
            matches!(*request, SimRequest::Admission(_)) && self.servers[link.node].admitted();
        let did = self.servers[link.node].execute(&request, bound, as_whom, now);
        let Effects { reply, notified, seen } = did;
        if let Some(seen) = seen {
            self.see(seen);
        }
        if let (SimRequest::Release(lease, ..), Reply::Freed(ReleaseOutcome { held: true, .. })) =
            (&*request, &reply)
            && let Some(number) = self.ledger.of(lease)
        {
            self.ledger.attempts[number].nodes[link.node].freed = true;
        }
        self.admission_done(link, &request, &reply, was);
        let granted = matches!(reply, Reply::Taken(taken) if taken.is_granted());
        self.trigger_withheld_votes(link, &request, granted, false);
        self.record_reply(link.node, &request, &reply);
        self.note_request("done", link, &request);
        if let Some(notified) = notified {
            self.publish(link.node, notified);
        }
        for lease in request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                leak::check(self, link.node, number);
            }
        }
        if copy || !current {
            return;
        }
        if !self.healed && self.dice.chance(self.plan.odds.drop_reply) {
            self.taint(&request, link.node);
            self.note_request("lost reply", link, &request);
            return;
        }
        let at = self.answer_at(link);
        self.at(at, Event::Answer(link, connection, id, reply));
    }

    /// Records what the node itself answered (definite noes, top-ups), whether or not the answer
    /// reaches the client.
    fn record_reply(&mut self, node: usize, request: &SimRequest, reply: &Reply) {
        let no = |at: usize| match reply {
            Reply::Renewed(held) => held.get(at) == Some(&false),
            Reply::Raised(raised) => *raised == Raised::Gone,
            Reply::Regranted(other) => other.is_some(),
            _ => false,
        };
        if let Reply::Raised(Raised::Behind(_)) = reply {
            self.see(Sometimes::RaiseMoved);
        }
        for (at, lease) in request.leases().iter().enumerate() {
            let Some(number) = self.ledger.of(lease) else { continue };
            let view = &mut self.ledger.attempts[number].nodes[node];
            match reply {
                Reply::Regranted(None) => view.regranted = true,
                _ if no(at) => (view.denied, view.regranted) = (true, false),
                _ => {}
            }
        }
    }

    fn vanishes(&mut self, arrival: &Arrival) {
        let node = arrival.link.node;
        for lease in arrival.request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                let view = &mut self.ledger.attempts[number].nodes[node];
                view.travelling -= 1;
            }
        }
        self.taint(&arrival.request, node);
    }

    pub fn travels(&mut self, request: &SimRequest, node: usize) {
        for lease in request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                self.ledger.attempts[number].nodes[node].travelling += 1;
            }
        }
    }

    pub fn taint(&mut self, request: &SimRequest, node: usize) {
        for lease in request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                self.ledger.attempts[number].nodes[node].tainted = true;
            }
        }
    }

    /// This node in the view of the acquisition to which a name was handed off.
    fn view(&mut self, node: usize, handoff: Option<RemoteGrant>) -> Option<&mut View> {
        let number = self.ledger.number(handoff?.nonce)?;
        Some(&mut self.ledger.attempts[number].nodes[node])
    }

    /// Sends a client the message that it is at the head of the queue, or has the name by a
    /// handoff. The message may get lost.
    pub fn publish(&mut self, node: usize, notified: NotifiedWaiter) {
        let NotifiedWaiter { client, name, handoff } = notified;
        if let Some(view) = self.view(node, handoff) {
            view.last = "hand over";
        }
        if !self.healed && self.dice.chance(self.plan.odds.lost_message) {
            if let Some(view) = self.view(node, handoff) {
                view.tainted = true;
            }
            return;
        }
        if let Some(view) = self.view(node, handoff) {
            view.travelling += 1;
        }
        let delay = self.subscription_latency(client, node);
        self.after(delay, Event::Message(client, node, name, handoff));
    }

    pub fn message(
        &mut self,
        (client, node): (usize, usize),
        name: &Name,
        handoff: Option<RemoteGrant>,
    ) {
        if let Some(view) = self.view(node, handoff) {
            view.travelling -= 1;
        }
        if self.processes[client].dead {
            return;
        }
        self.processes[client].wake_ups.0 = true;
        let attempt = handoff.and_then(|handoff| self.ledger.number(handoff.nonce));
        self.note("message", Who::both(client, node).on(attempt), 0);
        if let Some(attempt) = attempt {
            self.record_lost_handoff((client, node), name, attempt);
        }
        match handoff {
            Some(handoff) if self.processes[client].waits_for(node, name) => {
                self.ledger.handed_off(node, handoff.nonce, self.now);
                self.see(Sometimes::HandoffTaken);
                self.notify_subscribers(client, node, name, WaitEvent::Granted(handoff));
            }
            None if self.processes[client].waits_for(node, name) => {
                self.notify_subscribers(client, node, name, WaitEvent::Head);
            }
            // The client's waiter has given up. The request by which it left the queue also
            // releases the name.
            Some(_) => self.see(Sometimes::HandoffLost),
            None => {
                // This client no longer waits for the name. Its request to leave the queue makes
                // the node notify the next waiter.
                let link = LinkId { client, node, lane: Lane::Caller };
                let leave = SimRequest::Dequeue(name.clone());
                self.post(link, leave, SimResponder::Forced(Responder::nobody()));
            }
        }
    }

    /// A subscription reaches its node. If it cannot, the client tries again later.
    pub fn subscribe(&mut self, client: usize, node: usize) {
        if self.processes[client].dead {
            return;
        }
        if !self.servers[node].answers() || self.is_cut(client, node) {
            let wait = self.dice.within(20 * MS, 200 * MS);
            self.after(wait, Event::Subscribe(client, node));
            return;
        }
        self.servers[node].subscribed.insert(client);
        let delay = self.subscription_latency(client, node);
        self.after(delay, Event::Subscribed(client, node));
    }

    /// A subscription is confirmed. A release may have come before it, so all waiters poll again.
    pub fn subscribed(&mut self, client: usize, node: usize) {
        // The subscription may have broken again meanwhile.
        self.processes[client].subscribed[node].1 = self.servers[node].subscribed.contains(&client);
        if self.bug == Some(Bug::NoLookAfterSubscribe) {
            return;
        }
        self.processes[client].wake_ups.1 = true;
        self.notify_all(client, node);
    }

    /// Tells all waiters of a client at this node to poll again.
    pub fn notify_all(&mut self, client: usize, node: usize) {
        for name in self.processes[client].names(node) {
            self.notify_subscribers(client, node, &name, WaitEvent::Retry);
        }
    }

    /// The connection of a client's subscriptions breaks. The client subscribes again.
    pub fn break_subscription(&mut self, client: usize, node: usize) {
        self.processes[client].subscribed[node].1 = false;
        if self.servers[node].subscribed.remove(&client) {
            let wait = self.dice.within(20 * MS, 500 * MS);
            self.after(wait, Event::Subscribe(client, node));
        }
    }

    pub fn notify_subscribers(&mut self, client: usize, node: usize, name: &Name, news: WaitEvent) {
        let subscribers = self.processes[client].subscribers(node, name);
        let tell = subscribers
            .iter()
            .map(|subscriber| Delivery::Notify(Arc::clone(&subscriber.to), subscriber.from, news));
        self.out.extend(tell);
    }
}
