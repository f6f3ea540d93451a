//! What happens to a request at its node, and to what the node sends.

use std::sync::Arc;

use quorumlock_core::{Freed, Handed, Lane, Name, News, ReplyTo};

use super::ask::{Ask, Reply, To};
use super::invariants::leak;
use super::ledger::View;
use super::link::LinkId;
use super::mutants::Bug;
use super::server::{Did, Woken};
use super::sometimes::Sometimes;
use super::store::Raised;
use super::time::MS;
use super::trace::Who;
use super::world::{Arrival, Delivery, Event, State};

impl State {
    /// A request reaches its node.
    pub(super) fn arrive(&mut self, arrival: Arrival) {
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
                // Held up by a cut, on a connection that its client has given up.
                self.taint(&arrival.ask, node);
            }
            self.execute(arrival, current);
        }
    }

    fn execute(&mut self, arrival: Arrival, current: bool) {
        let Arrival { link, connection, id, ask, bound, copy } = arrival;
        let (now, wire) = (self.now, self.plan.wire);
        for (at, term) in ask.terms().iter().enumerate() {
            if let Some(number) = self.ledger.of(term) {
                let view = &mut self.ledger.attempts[number].nodes[link.node];
                let late = view.last == "release" && matches!(&*ask, Ask::Acquire(..));
                view.travelling -= 1;
                view.last = match &*ask {
                    // What is asked for with a release is not released by it.
                    Ask::Release(..) if at > 0 => "stand",
                    ask => ask.verb(),
                };
                if late {
                    self.see(Sometimes::ExecutedAfterRelease);
                }
            }
        }
        let as_whom = (link.client, wire);
        let was = matches!(*ask, Ask::Office(_)) && self.servers[link.node].admitted();
        let did = self.servers[link.node].execute(&ask, bound, as_whom, now);
        let Did { reply, woken, seen } = did;
        if let Some(seen) = seen {
            self.see(seen);
        }
        if let (Ask::Release(terms, ..), Reply::Freed(Freed { held: true, .. })) = (&*ask, &reply)
            && let Some(number) = terms.first().and_then(|term| self.ledger.of(term))
        {
            self.ledger.attempts[number].nodes[link.node].freed = true;
        }
        self.office_done(link, &ask, &reply, was);
        let granted = matches!(reply, Reply::Taken(taken) if taken.is_granted());
        self.spring_ambush(link, &ask, granted, false);
        self.said(link.node, &ask, &reply);
        self.note_ask("done", link, &ask);
        if let Some(woken) = woken {
            self.publish(link.node, woken);
        }
        for term in ask.terms() {
            if let Some(number) = self.ledger.of(term) {
                leak::check(self, link.node, number);
            }
        }
        if copy || !current {
            return;
        }
        if !self.healed && self.dice.chance(self.plan.odds.drop_reply) {
            self.taint(&ask, link.node);
            self.note_ask("lost reply", link, &ask);
            return;
        }
        let at = self.answer_at(link);
        self.at(at, Event::Answer(link, connection, id, reply));
    }

    /// Notes definite noes of the node itself, whatever becomes of its answer.
    fn said(&mut self, node: usize, ask: &Ask, reply: &Reply) {
        let no = |at: usize| match reply {
            Reply::Renewed(held) => held.get(at) == Some(&false),
            Reply::Raised(raised) => *raised == Raised::Gone,
            Reply::Recreated(other) => other.is_some(),
            _ => false,
        };
        if let Reply::Raised(Raised::Behind(_)) = reply {
            self.see(Sometimes::RaiseMoved);
        }
        for (at, term) in ask.terms().iter().enumerate() {
            let Some(number) = self.ledger.of(term) else { continue };
            let view = &mut self.ledger.attempts[number].nodes[node];
            match reply {
                Reply::Recreated(None) => view.recreated = true,
                _ if no(at) => (view.said_no, view.recreated) = (true, false),
                _ => {}
            }
        }
    }

    fn vanishes(&mut self, arrival: &Arrival) {
        let node = arrival.link.node;
        for term in arrival.ask.terms() {
            if let Some(number) = self.ledger.of(term) {
                let view = &mut self.ledger.attempts[number].nodes[node];
                view.travelling -= 1;
            }
        }
        self.taint(&arrival.ask, node);
    }

    pub(super) fn travels(&mut self, ask: &Ask, node: usize) {
        for term in ask.terms() {
            if let Some(number) = self.ledger.of(term) {
                self.ledger.attempts[number].nodes[node].travelling += 1;
            }
        }
    }

    pub(super) fn taint(&mut self, ask: &Ask, node: usize) {
        for term in ask.terms() {
            if let Some(number) = self.ledger.of(term) {
                self.ledger.attempts[number].nodes[node].tainted = true;
            }
        }
    }

    /// What is known of the acquisition to which a name was handed over.
    fn view(&mut self, node: usize, handed: Option<Handed>) -> Option<&mut View> {
        let number = self.ledger.number(handed?.nonce)?;
        Some(&mut self.ledger.attempts[number].nodes[node])
    }

    /// Tells a client that it is its turn, at some time; a message may get lost.
    pub(super) fn publish(&mut self, node: usize, woken: Woken) {
        let Woken { client, name, handed } = woken;
        if let Some(view) = self.view(node, handed) {
            view.last = "hand over";
        }
        if !self.healed && self.dice.chance(self.plan.odds.lost_message) {
            if let Some(view) = self.view(node, handed) {
                view.tainted = true;
            }
            return;
        }
        if let Some(view) = self.view(node, handed) {
            view.travelling += 1;
        }
        let delay = self.ear_latency(client, node);
        self.after(delay, Event::Message(client, node, name, handed));
    }

    pub(super) fn message(
        &mut self,
        (client, node): (usize, usize),
        name: &Name,
        handed: Option<Handed>,
    ) {
        if let Some(view) = self.view(node, handed) {
            view.travelling -= 1;
        }
        if self.processes[client].dead {
            return;
        }
        self.processes[client].told.0 = true;
        let attempt = handed.and_then(|handed| self.ledger.number(handed.nonce));
        self.note("message", Who::both(client, node).on(attempt), 0);
        if let Some(attempt) = attempt {
            self.handed_in_vain((client, node), name, attempt);
        }
        match handed {
            Some(handed) if self.processes[client].waits_for(node, name) => {
                self.ledger.handed(node, handed.nonce, self.now);
                self.see(Sometimes::Inherited);
                self.tell_ears(client, node, name, News::Handed(handed));
            }
            None if self.processes[client].waits_for(node, name) => {
                self.tell_ears(client, node, name, News::Turn);
            }
            // Whoever gave up has told the node so by now, and gives it back with that.
            Some(_) => self.see(Sometimes::InheritedInVain),
            None => {
                // Nobody here waits for it any more: others do.
                let link = LinkId { client, node, lane: Lane::Work };
                let leave = Ask::Leave(name.clone());
                self.post(link, leave, To::Forced(ReplyTo::nobody()));
            }
        }
    }

    /// A subscription reaches its node, or finds no way and is tried again.
    pub(super) fn subscribe(&mut self, client: usize, node: usize) {
        if self.processes[client].dead {
            return;
        }
        if !self.servers[node].answers() || self.is_cut(client, node) {
            let wait = self.dice.within(20 * MS, 200 * MS);
            self.after(wait, Event::Subscribe(client, node));
            return;
        }
        self.servers[node].subscribed.insert(client);
        let delay = self.ear_latency(client, node);
        self.after(delay, Event::Subscribed(client, node));
    }

    /// A release may have come before the subscription: everybody looks again.
    pub(super) fn subscribed(&mut self, client: usize, node: usize) {
        // It may have broken again meanwhile.
        self.processes[client].tuned[node].1 = self.servers[node].subscribed.contains(&client);
        if self.bug == Some(Bug::NoLookAfterSubscribe) {
            return;
        }
        self.processes[client].told.1 = true;
        self.all_look(client, node);
    }

    /// Everybody who waits looks again.
    pub(super) fn all_look(&mut self, client: usize, node: usize) {
        for name in self.processes[client].names(node) {
            self.tell_ears(client, node, &name, News::Ask);
        }
    }

    /// The connection of a client's subscriptions breaks: it subscribes anew.
    pub(super) fn deafen(&mut self, client: usize, node: usize) {
        self.processes[client].tuned[node].1 = false;
        if self.servers[node].subscribed.remove(&client) {
            let wait = self.dice.within(20 * MS, 500 * MS);
            self.after(wait, Event::Subscribe(client, node));
        }
    }

    pub(super) fn tell_ears(&mut self, client: usize, node: usize, name: &Name, news: News) {
        let ears = self.processes[client].ears(node, name);
        let tell = ears.iter().map(|ear| Delivery::Tell(Arc::clone(&ear.to), ear.from, news));
        self.out.extend(tell);
    }
}
