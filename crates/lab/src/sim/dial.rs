//! How a connection begins and ends: dialled, greeted, verified, given up, dialled again.

use quorumlock_core::admission::Standing;
use quorumlock_core::{
    Denial, Greeting, Instant, Lane, NodeProblem, NodeReport, Stamp, fingerprint,
};

use super::ask::Ask;
use super::link::{Link, LinkId, Pending, Phase};
use super::mutants::{self, Bug};
use super::process::LANES;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::world::{Delivery, Event, State};

/// What a connection is good for.
#[derive(Clone, Debug)]
pub(super) struct Greeted {
    /// Under what the node's memory was verified.
    stamp: Stamp,
    /// What whoever asks for a vote is told, if the node counts for nothing.
    unproven: Option<Denial>,
    /// Of the server.
    life: u64,
}

const FIRST_BACKOFF: Micros = 20 * MS;
/// How long a connection that was cut while idle stays away at most.
const REST: Micros = 2 * SECOND;
/// How often an unproven node is looked at again.
const RECHECK: Micros = 250 * MS;

impl Link {
    pub(super) fn stamp(&self) -> Stamp {
        self.greeted.as_ref().map_or(Stamp::NONE, |greeted| greeted.stamp)
    }

    /// How the present connection was greeted, or the last one.
    pub(super) fn greeting(&self) -> Greeting {
        let life = self.greeted.as_ref().map(|greeted| greeted.life);
        Greeting { life, at: self.since.unwrap_or(Instant::NEVER) }
    }

    pub(super) fn unproven(&self) -> Option<&Denial> {
        self.greeted.as_ref()?.unproven.as_ref()
    }
}

impl State {
    /// A client dials all nodes before it is told to begin.
    pub(super) fn connect(&mut self, client: usize) {
        for node in 0..self.plan.nodes {
            for lane in LANES {
                self.dial(LinkId { client, node, lane });
            }
        }
    }

    pub(super) fn dial(&mut self, at: LinkId) {
        self.link(at).phase = Phase::Dialing;
        let connection = self.link(at).connection;
        // A handshake and a greeting.
        let delay = 2 * self.latency(at);
        self.after(delay, Event::Dialed(at, connection, false));
    }

    pub(super) fn dialed(&mut self, at: LinkId, connection: u64, last: bool) {
        if self.link(at).connection != connection {
            return;
        }
        let cut = self.is_cut(at.client, at.node);
        let server = &self.servers[at.node];
        let (up, run) = (server.answers() && !cut, server.run.number);
        if !up && !last && !server.run.down {
            // Nobody says no: the dialer waits as long as it may.
            let patience = self.plan.connect_timeout;
            self.after(patience, Event::Dialed(at, connection, true));
            return;
        }
        if up {
            let greeted = self.greet(at);
            if self.plan.charter.is_none() {
                return self.greeted(at, connection, run, greeted);
            }
            // The sheet was read; the scripts are loaded one round trip later.
            let delay = 2 * self.latency(at);
            self.after(delay, Event::Greeted(at, connection, run, greeted));
        } else {
            let link = self.link(at);
            let queued = std::mem::take(&mut link.waiting);
            link.phase = Phase::Down;
            link.backoff = (link.backoff * 2).clamp(FIRST_BACKOFF, SECOND);
            let backoff = link.backoff;
            let wait = self.dice.within(backoff / 2, backoff);
            self.after(wait, Event::Dialed(at, connection, false));
            for pending in queued {
                self.see(Sometimes::NeverSent);
                self.silence(at, pending, false);
            }
        }
    }

    /// What the node says of itself on a new connection; the scripts are loaded.
    fn greet(&mut self, at: LinkId) -> Greeted {
        mutants::trusts_uptime(self, at.node);
        let server = &mut self.servers[at.node];
        let report = |problem| NodeReport::new(server.label.clone(), problem);
        let (stamp, unproven) = match server.standing() {
            None => (Stamp::NONE, None),
            Some(Standing::Admitted(stamp)) => (stamp, None),
            Some(Standing::Misfit(terms)) => {
                let terms = NodeProblem::OtherTerms(terms);
                (Stamp::NONE, Some(Denial::Refused(report(terms))))
            }
            Some(_) => (Stamp::NONE, Some(Denial::NotAdmitted(report(NodeProblem::NotAdmitted)))),
        };
        if stamp != Stamp::NONE && !server.life.scripts.contains(&stamp) {
            server.life.scripts.push(stamp);
        }
        // A planted bug: it is taken for the one that was there before.
        let bug = self.bug == Some(Bug::TrustsAnyLife);
        let life = if bug { 0 } else { fingerprint(0, &server.life.id()) };
        Greeted { stamp, unproven, life }
    }

    /// The connection is ready: what waited for it goes out.
    pub(super) fn greeted(&mut self, at: LinkId, connection: u64, run: u64, greeted: Greeted) {
        if self.link(at).connection != connection {
            return;
        }
        let process = &mut self.processes[at.client];
        let now = process.clock.running();
        process.lives[at.node].meet(Some(greeted.life), now);
        let link = self.link(at);
        link.since = Some(now);
        let known = link.greeted.is_some() && link.run == run;
        let queued = std::mem::take(&mut link.waiting);
        let unproven = greeted.unproven.is_some();
        (link.phase, link.run, link.useful) = (Phase::Up, run, false);
        (link.watched, link.heard) = (false, true);
        link.greeted = Some(greeted);
        if unproven {
            self.note("finds it unproven", Who::both(at.client, at.node), at.lane as u64);
            self.after(RECHECK, Event::Recheck(at, connection));
        }
        self.pay_debts(at);
        for pending in queued {
            self.send_or_object(at, pending);
        }
        if at.lane == Lane::Work && !known && self.processes[at.client].tuned[at.node].1 {
            self.all_look(at.client, at.node);
        }
    }

    /// See [`Node::connected_since`](quorumlock_core::Node::connected_since).
    pub(super) fn connected_since(&mut self, at: LinkId) -> Option<Instant> {
        if self.closed {
            return Some(Instant::NEVER);
        }
        let link = self.link(at);
        match link.phase {
            Phase::Dialing => None,
            Phase::Up => link.since,
            Phase::Idle | Phase::Down => Some(Instant::NEVER),
        }
    }

    /// A connection that was cut while idle comes back, unless somebody wanted it before.
    pub(super) fn come_back(&mut self, at: LinkId, connection: u64) {
        if self.link(at).connection == connection && self.link(at).phase == Phase::Idle {
            self.dial(at);
        }
    }

    /// The memory of an unproven node is looked at again, on a new connection.
    pub(super) fn recheck(&mut self, at: LinkId, connection: u64) {
        let link = self.link(at);
        if link.connection != connection || link.phase != Phase::Up {
            return;
        }
        if !link.waiting.is_empty() {
            return self.after(5 * MS, Event::Recheck(at, connection));
        }
        self.broken(at, true);
    }

    /// A request is sent, unless the connected node may not be asked this.
    pub(super) fn send_or_object(&mut self, at: LinkId, pending: Pending) {
        let (stamp, bug) = (self.link(at).stamp(), self.bug);
        let ask = &pending.ask;
        let unproven = self.link(at).unproven().cloned();
        let stale = |ask: &Ask| ask.stamp().is_some_and(|asked| asked != stamp);
        let label = self.servers[at.node].label.clone();
        let denial = match unproven {
            _ if !ask.votes() => None,
            Some(_) if mutants::asks_unproven(bug, ask) => None,
            Some(why) => Some(why),
            None if stale(ask) && bug != Some(Bug::BoundWhenSent) => {
                self.see(Sometimes::StaleRequest);
                Some(Denial::Stale(NodeReport::new(label.clone(), NodeProblem::Reverified)))
            }
            None => None,
        };
        let Some(denial) = denial else { return self.send(at, pending) };
        self.note_ask("not asked", at, ask);
        if matches!(denial, Denial::NotAdmitted(_)) {
            self.voided(at, ask);
        }
        let report = NodeReport::new(label, NodeProblem::NotAdmitted);
        let told = pending.to.denied(&pending.ask, &denial, report);
        self.tell(at, &pending.ask, told);
    }

    /// A node that counts for nothing says definitely no.
    fn voided(&mut self, at: LinkId, ask: &Ask) {
        for term in ask.terms() {
            if let Some(number) = self.ledger.of(term) {
                let attempt = &mut self.ledger.attempts[number];
                attempt.nodes[at.node].said_no = true;
                if attempt.granted {
                    self.see(Sometimes::VoidedByQuarantine);
                }
            }
        }
    }

    /// As far as a client's connection for callers knows.
    pub(super) fn known_stamp(&mut self, client: usize, node: usize) -> Stamp {
        if self.closed {
            return Stamp::NONE;
        }
        self.link(LinkId { client, node, lane: Lane::Work }).stamp()
    }

    /// See [`Node::identity`](quorumlock_core::Node::identity): each client calls the nodes by names of its own,
    /// until it has met them.
    pub(super) fn identity(&mut self, client: usize, node: usize) -> u64 {
        let met = match self.closed {
            true => None,
            false => {
                let link = self.link(LinkId { client, node, lane: Lane::Work });
                link.greeted.is_some().then_some(link.run)
            }
        };
        let (who, what) = met.map_or((client as u64, "met by"), |run| (run, "in its life"));
        fingerprint((node as u64) << 32 | who, what)
    }

    /// As far as a client's connections know.
    pub(super) fn known_proven(&mut self, client: usize, node: usize) -> bool {
        if self.closed {
            return true;
        }
        let mut unproven = |lane| self.link(LinkId { client, node, lane }).unproven().is_some();
        !LANES.into_iter().any(&mut unproven)
    }

    pub(super) fn broken_from_outside(&mut self, at: LinkId, connection: u64) {
        if self.link(at).connection == connection && self.link(at).phase == Phase::Up {
            self.broken(at, false);
        }
    }

    /// The connection ends, `ours`: we ended it. What was sent and not answered may have happened.
    pub(super) fn broken(&mut self, at: LinkId, ours: bool) {
        self.note("connection broke", Who::both(at.client, at.node), at.lane as u64);
        let owes = !self.processes[at.client].debts[at.node].is_empty();
        let link = self.link(at);
        link.connection += 1;
        let (connection, out) = (link.connection, std::mem::take(&mut link.waiting));
        if out.is_empty() && !ours {
            link.phase = Phase::Idle;
            match owes {
                true => self.dial(at),
                false => {
                    let rest = self.dice.within(REST / 2, REST);
                    self.after(rest, Event::ComeBack(at, connection));
                }
            }
        } else if link.useful || ours {
            link.backoff = 0;
            self.dial(at);
        } else {
            // What breaks a connection may be what is asked again on the next one.
            link.phase = Phase::Dialing;
            link.backoff = (link.backoff * 2).clamp(FIRST_BACKOFF, SECOND);
            let backoff = link.backoff;
            self.after(backoff, Event::Dialed(at, connection, false));
        }
        for pending in out {
            self.silence(at, pending, true);
        }
    }

    /// Connections to a former life of a node are found out, as keepalive would.
    pub(super) fn drop_stale(&mut self, client: usize) {
        for node in 0..self.plan.nodes {
            let run = self.servers[node].run.number;
            for lane in LANES {
                let at = LinkId { client, node, lane };
                let link = self.link(at);
                if link.phase == Phase::Up && link.run != run {
                    let connection = link.connection;
                    self.after(MS, Event::Broken(at, connection));
                }
            }
        }
    }

    /// What the process had on its connections when it was killed.
    pub(super) fn hang_up(&mut self, client: usize) {
        for links in &mut self.processes[client].links {
            for link in links {
                link.connection += 1;
                let waiting = std::mem::take(&mut link.waiting);
                self.out.push(Delivery::Drop(Box::new(waiting)));
            }
        }
        let debts = std::mem::take(&mut self.processes[client].debts);
        self.processes[client].debts = debts.iter().map(|_| Vec::new()).collect();
        self.out.push(Delivery::Drop(Box::new(debts)));
    }
}
