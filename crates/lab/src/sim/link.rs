//! One connection of a client to a node, as the real line keeps it: dialled at the first request,
//! dialled again when it breaks, given up when it stays silent.

use std::collections::VecDeque;
use std::sync::Arc;

use quorumlock_core::{
    Freed, InLine, Instant, Lane, NodeProblem, NodeReport, ReplyTo, Silence, Spot, Term,
    Unconfirmed,
};
use quorumlock_watchdog::expiry;

use super::ask::{Ask, Asked, Context, Reply, To, Told};
use super::dial::Greeted;
use super::invariants::{check_given_back, freed_by_us};
use super::mutants;
use super::nemesis::Moment;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, SECOND};
use super::world::{Arrival, Delivery, Event, State};

/// Which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkId {
    /// The process: a restarted client is a new one.
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) lane: Lane,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// Counts connections: what belongs to an older one is not heard any more.
    pub(super) connection: u64,
    /// The life of the server to which it leads.
    pub(super) run: u64,
    /// What the present connection is good for, or the last one.
    pub(super) greeted: Option<Greeted>,
    /// Since when it is up, on the client's clock.
    pub(super) since: Option<Instant>,
    next_id: u64,
    pub(super) waiting: VecDeque<Pending>,
    /// When the last request arrives and the last answer: later ones come no sooner.
    last_out: Micros,
    last_in: Micros,
    /// Since the last look, and ever on this connection.
    pub(super) heard: bool,
    pub(super) useful: bool,
    /// A stall timer runs.
    pub(super) watched: bool,
    pub(super) backoff: Micros,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Dialing,
    Up,
    /// Dialled on in the background; requests fail at once.
    Down,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Pending {
    id: u64,
    pub(super) ask: Arc<Ask>,
    pub(super) to: To,
    /// The lease counts from before the command enters our own queue.
    pub(super) asked: Instant,
    pub(super) sent: Micros,
}

/// A release that may not have arrived: asked again, until its lease has ended.
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) term: Term,
    spot: Option<Spot>,
    unconfirmed: Unconfirmed,
    to: To,
    until: Instant,
}

impl State {
    /// A client's code posts a request.
    pub(super) fn post(&mut self, link: LinkId, ask: Ask, to: To) {
        if self.closed || self.processes[link.client].dead {
            self.out.push(Delivery::Drop(Box::new(to)));
            return;
        }
        if let Ask::Release(terms, ..) = &ask
            && let Some(attempt) = terms.first().and_then(|term| self.ledger.of(term))
        {
            check_given_back(self, link.client, attempt);
        }
        self.waiter_asks(link, &ask);
        let size = self.plan.nodes;
        self.ledger.posted(link.client, link.node, &ask, size, self.now);
        self.note_ask("post", link, &ask);
        self.lay_ambush(link, &ask);
        if mutants::swallows(self, link, &ask) {
            self.out.push(Delivery::Drop(Box::new(to)));
            return;
        }
        let process = &mut self.processes[link.client];
        if process.stopped {
            // Its timers are the runtime's: what they make it do waits until it goes on.
            process.outbox.push((link, ask, to));
            return;
        }
        let asked = process.clock.running();
        self.queue_request(link, ask, to, asked);
    }

    pub(super) fn queue_request(&mut self, at: LinkId, ask: Ask, to: To, asked: Instant) {
        let offered = match &ask {
            Ask::Acquire(term, .., Some(InLine { offer: Some(offer), .. })) => {
                Some((term.nonce, *offer))
            }
            Ask::Release(_, Some(Spot::Again(nonce, offer)), _) => Some((*nonce, *offer)),
            _ => None,
        };
        if let Some((nonce, offer)) = offered {
            let until = expiry(asked, offer.claim, mutants::rho(self));
            self.ledger.offered(nonce, until);
        }
        let ask = Arc::new(ask);
        let phase = self.link(at).phase;
        if phase == Phase::Up || phase == Phase::Dialing {
            self.pay_debts(at);
        }
        let now = self.now;
        let link = self.link(at);
        link.next_id += 1;
        let pending = Pending { id: link.next_id, ask, to, asked, sent: now };
        match phase {
            Phase::Up => self.send_or_object(at, pending),
            Phase::Dialing => link.waiting.push_back(pending),
            Phase::Idle => {
                link.waiting.push_back(pending);
                self.dial(at);
            }
            Phase::Down => {
                self.see(Sometimes::NeverSent);
                self.silence(at, pending, false);
            }
        }
    }

    pub(super) fn send(&mut self, at: LinkId, pending: Pending) {
        let odds = self.plan.odds;
        let lost = !self.healed && self.dice.chance(odds.drop_request);
        let reordered = !self.healed && self.dice.chance(odds.reorder);
        let copied = !self.healed && self.dice.chance(odds.duplicate);
        let mut arrives = self.now + self.latency(at);
        let (cut, _) = self.cuts[self.processes[at.client].slot][at.node];
        if cut > self.now {
            // TCP sends it again and again, and gets through when the cut is over.
            arrives += cut - self.now;
        }
        // The name is taken from the holder just before its counter is raised, and others come first.
        let raises = matches!(*pending.ask, Ask::Raise(..));
        let dawdles = raises && !self.healed && self.dice.chance(odds.evict);
        let late = match dawdles {
            true => self.dice.spread(MS, self.plan.answer_timeout * 3 / 4),
            false => 0,
        };
        let connection = self.link(at).connection;
        let (id, ask) = (pending.id, pending.ask.clone());
        let link = self.link(at);
        let bound = link.stamp();
        if !reordered {
            arrives = arrives.max(link.last_out);
            link.last_out = arrives;
        }
        arrives += late;
        link.waiting.push_back(pending);
        let arrival = Arrival { link: at, connection, id, ask: ask.clone(), bound, copy: false };
        if reordered || copied || lost {
            self.taint(&ask, at.node);
        }
        if copied {
            self.travels(&ask, at.node);
            let later = arrives + self.dice.spread(MS, SECOND);
            self.at(later, Event::Arrive(Arrival { copy: true, ..arrival.clone() }));
        }
        if lost {
            self.note_ask("lost request", at, &ask);
        } else {
            self.travels(&ask, at.node);
            self.at(arrives, Event::Arrive(arrival));
        }
        if !self.healed && self.dice.chance(odds.stop) {
            self.after(0, Event::Fault(Some(Moment::Sent(at.client))));
        }
        if dawdles {
            self.after(0, Event::Fault(Some(Moment::Raising(at.node, ask))));
        }
        let stall = self.plan.stall();
        let link = self.link(at);
        if !std::mem::replace(&mut link.watched, true) {
            link.heard = true;
            self.after(stall, Event::Stall(at, connection));
        }
    }

    /// An answer gets to the client.
    pub(super) fn answer(&mut self, at: LinkId, connection: u64, id: u64, reply: Reply) {
        let link = self.link(at);
        if link.connection != connection {
            return;
        }
        let Some(place) = link.waiting.iter().position(|pending| pending.id == id) else { return };
        let Some(pending) = link.waiting.remove(place) else { return };
        (link.heard, link.useful) = (true, true);
        self.note_late(&pending);
        let repeated = self.freed_before(at, &pending.ask, &reply);
        let server = &self.servers[at.node];
        let with = Context {
            asked: mutants::asked(self, at.client, &pending),
            rho: mutants::rho(self),
            label: &server.label,
        };
        let verify = matches!(reply, Reply::Unproven);
        let reply = repeated.unwrap_or(reply);
        let granted = matches!(reply, Reply::Taken(taken) if taken.is_granted());
        let told = pending.to.told(&pending.ask, reply, with);
        self.tell(at, &pending.ask, told);
        self.spring_ambush(at, &pending.ask, granted, true);
        if verify {
            self.see(Sometimes::UnprovenScript);
            self.broken(at, true);
        }
    }

    /// What a repeated release makes of "not held".
    fn freed_before(&mut self, at: LinkId, ask: &Ask, reply: &Reply) -> Option<Reply> {
        let (
            Ask::Release(terms, _, Asked { unconfirmed, repeat: true }),
            Reply::Freed(Freed { held: false, .. }),
        ) = (ask, reply)
        else {
            return None;
        };
        let greeting = self.link(at).greeting();
        let process = &self.processes[at.client];
        if !unconfirmed.freed_it(greeting, &process.lives[at.node], process.now()) {
            return None;
        }
        self.see(Sometimes::FreedBefore);
        if let Some(number) = terms.first().and_then(|term| self.ledger.of(term)) {
            freed_by_us::check(self, at.node, number);
        }
        Some(Reply::Freed(Freed { held: true, woke: None }))
    }

    /// A release that may not have arrived is asked again. `Some`: whoever waits hears that there
    /// is no answer.
    fn owe(&mut self, at: LinkId, pending: Pending, maybe: bool) -> Option<Pending> {
        let Ask::Release(terms, spot, mut asked) = (*pending.ask).clone() else {
            return Some(pending);
        };
        let Some(term) = terms.into_iter().next() else { return Some(pending) };
        if maybe {
            let (life, now) = (self.link(at).greeting().life, self.processes[at.client].now());
            asked.unconfirmed.written(life, now);
        }
        let bumps = matches!(spot, Some(Spot::Again(..)));
        let waits_on = asked.repeat || maybe && !bumps;
        let spot = spot.filter(|spot| matches!(spot, Spot::Left(_)));
        let until = self.processes[at.client].clock.running() + term.ttl;
        let (to, told) = match waits_on {
            true => {
                self.ledger.owed(at.node, &pending.ask);
                (pending.to, None)
            }
            false => {
                let nobody = To::Freed(ReplyTo::nobody());
                (nobody, Some(pending))
            }
        };
        let debt = Debt { term, spot, unconfirmed: asked.unconfirmed, to, until };
        self.processes[at.client].debts[at.node].push(debt);
        told
    }

    /// The client learns that there is no answer.
    pub(super) fn silence(&mut self, at: LinkId, pending: Pending, maybe: bool) {
        if maybe {
            self.taint(&pending.ask, at.node);
            self.see(Sometimes::MaybeSent);
        }
        self.note_ask(if maybe { "maybe" } else { "never" }, at, &pending.ask);
        let Some(pending) = self.owe(at, pending, maybe) else { return };
        let report = NodeReport::new(
            self.servers[at.node].label.clone(),
            NodeProblem::Broken("no answer".into()),
        );
        let silence = if maybe { Silence::Maybe(report) } else { Silence::Never(report) };
        let told = pending.to.silent(&pending.ask, silence);
        self.tell(at, &pending.ask, told);
    }

    pub(super) fn tell(&mut self, at: LinkId, ask: &Ask, told: Told) {
        self.note_losses(at.client);
        for told in mutants::bend(self, at, ask, told) {
            self.ledger.told(at.node, ask, &told, self.now);
            self.note_ask("told", at, ask);
            self.out.push(Delivery::Told(told));
        }
        mutants::frees_unheard(self, at, ask);
        let attempts = ask.terms().iter().filter_map(|term| self.ledger.of(term)).collect();
        self.out.push(Delivery::Check { node: at.node, attempts });
    }

    /// Requests are out: has anything been heard since the last look?
    pub(super) fn stall(&mut self, at: LinkId, connection: u64) {
        let (now, stall) = (self.now, self.plan.stall());
        let link = self.link(at);
        if link.connection != connection {
            return;
        }
        if link.waiting.is_empty() {
            link.watched = false;
            return;
        }
        if !std::mem::take(&mut link.heard) {
            self.broken(at, false);
            return;
        }
        // A single message was lost, which TCP would not do: no answer will come.
        while let Some(oldest) = self.link(at).waiting.front()
            && oldest.sent + stall <= now
            && let Some(oldest) = self.link(at).waiting.pop_front()
        {
            self.silence(at, oldest, true);
        }
        self.after(stall, Event::Stall(at, connection));
    }

    pub(super) fn pay_debts(&mut self, at: LinkId) {
        let process = &mut self.processes[at.client];
        let now = process.clock.running();
        let debts = std::mem::take(&mut process.debts[at.node]);
        for debt in debts {
            if debt.until > now {
                self.see(Sometimes::DebtPaid);
                let term = Term { ttl: debt.until.since(now), ..debt.term };
                let link = self.link(at);
                link.next_id += 1;
                let (id, sent) = (link.next_id, self.now);
                let asked = Asked { unconfirmed: debt.unconfirmed, repeat: true };
                let ask = Arc::new(Ask::Release(vec![term], debt.spot, asked));
                self.ledger.posted(at.client, at.node, &ask, self.plan.nodes, sent);
                let pending = Pending { id, ask, to: debt.to, asked: now, sent };
                match self.link(at).phase {
                    Phase::Up => self.send(at, pending),
                    _ => self.link(at).waiting.push_back(pending),
                }
            } else {
                self.out.push(Delivery::Drop(Box::new(debt.to)));
            }
        }
    }

    pub(super) fn link(&mut self, at: LinkId) -> &mut Link {
        &mut self.processes[at.client].links[at.node][at.lane as usize]
    }

    /// When the next answer on this connection gets through, at the earliest.
    pub(super) fn answer_at(&mut self, at: LinkId) -> Micros {
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

    pub(super) fn leads_to(&mut self, arrival: &Arrival) -> (bool, bool) {
        let run = self.servers[arrival.link.node].run.number;
        let link = self.link(arrival.link);
        (link.connection == arrival.connection, link.run == run)
    }

    pub(super) fn connection(&mut self, at: LinkId) -> u64 {
        self.link(at).connection
    }
}
