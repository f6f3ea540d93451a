//! The life cycle of a connection: dial, handshake, verification, end, reconnection.

use quorumlock_protocol::admission::NodeStatus;
use quorumlock_protocol::{Denial, Incarnation, Instant, Lane, NodeProblem, NodeReport, fnv1a};

use super::bug::Bug;
use super::event::Event;
use super::link::{HandshakeReply, LANES, LinkId, Pending, Phase};
use super::mutants;
use super::request::SimRequest;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::world::{Delivery, State};

const MIN_BACKOFF: Micros = 20 * MS;
/// The longest time until a connection that broke while idle is dialled again.
const MAX_IDLE_PAUSE: Micros = 2 * SECOND;
/// How often a client checks a node again that it may not yet count.
const RECHECK: Micros = 250 * MS;

impl State {
    /// Dials all nodes for a client before its tasks begin.
    pub fn connect(&mut self, client: usize) {
        for node in 0..self.plan.nodes {
            for lane in LANES {
                self.dial(LinkId { client, node, lane });
            }
        }
    }

    pub fn dial(&mut self, at: LinkId) {
        self.link(at).phase = Phase::Dialing;
        let connection = self.link(at).connection;
        // One round trip for the TCP handshake, and one for the Redis handshake.
        let delay = 2 * self.latency(at);
        self.after(delay, Event::Dialed(at, connection, false));
    }

    pub fn dialed(&mut self, at: LinkId, connection: u64, last: bool) {
        if self.link(at).connection != connection {
            return;
        }
        let cut = self.is_cut(at.client, at.node);
        let server = &self.servers[at.node];
        let (up, run) = (server.answers() && !cut, server.run.number);
        if !up && !last && !server.run.down {
            // Nothing refuses the connection: the client waits until its connect timeout.
            let patience = self.plan.connect_timeout;
            self.after(patience, Event::Dialed(at, connection, true));
            return;
        }
        if up {
            let handshake = self.greet(at);
            if self.plan.cluster.is_none() {
                return self.greeted(at, connection, run, handshake);
            }
            // The node info has been read; the scripts are loaded one round trip later.
            let delay = 2 * self.latency(at);
            self.after(delay, Event::Greeted(at, connection, run, handshake));
        } else {
            let link = self.link(at);
            let queued = std::mem::take(&mut link.waiting);
            link.phase = Phase::Down;
            link.backoff = (link.backoff * 2).clamp(MIN_BACKOFF, SECOND);
            let backoff = link.backoff;
            let wait = self.dice.within(backoff / 2, backoff);
            self.after(wait, Event::Dialed(at, connection, false));
            for pending in queued {
                self.see(Sometimes::NeverSent);
                self.no_answer(at, pending, false);
            }
        }
    }

    /// The handshake on a new connection: reads the node's status and loads the scripts.
    fn greet(&mut self, at: LinkId) -> HandshakeReply {
        mutants::trusts_uptime(self, at.node);
        let now = self.now;
        let server = &mut self.servers[at.node];
        let report = |problem| NodeReport::new(server.label.clone(), problem);
        let (incarnation, unproven) = match server.node_status(now) {
            None => (Incarnation::NONE, None),
            Some(NodeStatus::Admitted(incarnation)) => (incarnation, None),
            Some(status) => {
                let report = status.problem().map(report);
                let barred = matches!(
                    status,
                    NodeStatus::OtherMembers { .. } | NodeStatus::ConfigMismatch(_)
                );
                let denial = if barred { Denial::Refused } else { Denial::NotAdmitted };
                (Incarnation::NONE, report.map(denial))
            }
        };
        if incarnation != Incarnation::NONE && !server.run_identity.scripts.contains(&incarnation) {
            server.run_identity.scripts.push(incarnation);
        }
        // A planted bug: the client takes every server for the one that was there before.
        let bug = self.bug == Some(Bug::TrustsAnyLife);
        let run_identity = if bug { 0 } else { fnv1a(0, &server.run_identity.id()) };
        HandshakeReply { incarnation, unproven, run_identity }
    }

    /// The connection is ready: sends the requests that waited for it.
    pub fn greeted(&mut self, at: LinkId, connection: u64, run: u64, handshake: HandshakeReply) {
        if self.link(at).connection != connection {
            return;
        }
        let process = &mut self.processes[at.client];
        let now = process.clock.running();
        process.run_identities[at.node].meet(Some(handshake.run_identity), now);
        let link = self.link(at);
        link.since = Some(now);
        let known = link.handshake.is_some() && link.run == run;
        let queued = std::mem::take(&mut link.waiting);
        let unproven = handshake.unproven.is_some();
        (link.phase, link.run, link.useful) = (Phase::Up, run, false);
        (link.stall_timer, link.answered) = (false, true);
        link.handshake = Some(handshake);
        if unproven {
            self.note("finds it unproven", Who::both(at.client, at.node), at.lane as u64);
            self.after(RECHECK, Event::Recheck(at, connection));
        }
        self.send_unconfirmed(at);
        for pending in queued {
            self.send_or_deny(at, pending);
        }
        if at.lane == Lane::Caller && !known && self.processes[at.client].subscribed[at.node].1 {
            self.notify_all(at.client, at.node);
        }
    }

    /// See [`Node::connected_since`](quorumlock_protocol::Node::connected_since).
    pub fn connected_since(&mut self, at: LinkId) -> Option<Instant> {
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

    /// Dials a connection again that broke while idle, unless a request has dialled it already.
    pub fn redial(&mut self, at: LinkId, connection: u64) {
        if self.link(at).connection == connection && self.link(at).phase == Phase::Idle {
            self.dial(at);
        }
    }

    /// Checks the memory of an unproven node again, on a new connection.
    pub fn recheck(&mut self, at: LinkId, connection: u64) {
        let link = self.link(at);
        if link.connection != connection || link.phase != Phase::Up {
            return;
        }
        if !link.waiting.is_empty() {
            return self.after(5 * MS, Event::Recheck(at, connection));
        }
        self.broken(at, true);
    }

    /// Sends a request, or denies it locally if the connected node may not carry it out.
    pub fn send_or_deny(&mut self, at: LinkId, pending: Pending) {
        let (incarnation, bug) = (self.link(at).incarnation(), self.bug);
        let request = &pending.request;
        let unproven = self.link(at).unproven().cloned();
        let stale =
            |request: &SimRequest| request.incarnation().is_some_and(|asked| asked != incarnation);
        let label = self.servers[at.node].label.clone();
        let denial = match unproven {
            _ if !request.votes() => None,
            Some(_) if mutants::asks_unproven(bug, request) => None,
            Some(why) => Some(why),
            None if stale(request) && bug != Some(Bug::BoundWhenSent) => {
                self.see(Sometimes::StaleRequest);
                Some(Denial::Stale(NodeReport::new(label.clone(), NodeProblem::Reverified)))
            }
            None => None,
        };
        let Some(denial) = denial else { return self.send(at, pending) };
        self.note_request("not asked", at, request);
        if matches!(denial, Denial::NotAdmitted(_)) {
            self.voided(at, request);
        }
        let report = NodeReport::new(label, NodeProblem::NotAdmitted);
        let answer = pending.to.denied(&pending.request, &denial, report);
        self.deliver(at, &pending.request, answer);
    }

    /// Records that a node which may not vote has definitely refused these leases.
    fn voided(&mut self, at: LinkId, request: &SimRequest) {
        for lease in request.leases() {
            if let Some(number) = self.ledger.of(lease) {
                let attempt = &mut self.ledger.attempts[number];
                attempt.nodes[at.node].denied = true;
                if attempt.granted {
                    self.see(Sometimes::VoidedByQuarantine);
                }
            }
        }
    }

    /// The node's incarnation, as the client's connection for callers knows it.
    pub fn known_incarnation(&mut self, client: usize, node: usize) -> Incarnation {
        if self.closed {
            return Incarnation::NONE;
        }
        self.link(LinkId { client, node, lane: Lane::Caller }).incarnation()
    }

    /// See [`Node::identity`](quorumlock_protocol::Node::identity). Each client has its own
    /// identity for a node until it has connected to it.
    pub fn identity(&mut self, client: usize, node: usize) -> u64 {
        let met = match self.closed {
            true => None,
            false => {
                let link = self.link(LinkId { client, node, lane: Lane::Caller });
                link.handshake.is_some().then_some(link.run)
            }
        };
        let (who, what) = met.map_or((client as u64, "met by"), |run| (run, "in its life"));
        fnv1a((node as u64) << 32 | who, what)
    }

    /// Whether no connection of the client knows the node to be unproven.
    pub fn known_proven(&mut self, client: usize, node: usize) -> bool {
        if self.closed {
            return true;
        }
        let mut unproven = |lane| self.link(LinkId { client, node, lane }).unproven().is_some();
        !LANES.into_iter().any(&mut unproven)
    }

    pub fn broken_from_outside(&mut self, at: LinkId, connection: u64) {
        if self.link(at).connection == connection && self.link(at).phase == Phase::Up {
            self.broken(at, false);
        }
    }

    /// Ends a connection. `ours`: the client itself ended it. A request that was sent and not
    /// answered may have been carried out.
    pub fn broken(&mut self, at: LinkId, ours: bool) {
        self.note("connection broke", Who::both(at.client, at.node), at.lane as u64);
        let owes = !self.processes[at.client].unconfirmed[at.node].is_empty();
        let link = self.link(at);
        link.connection += 1;
        let (connection, out) = (link.connection, std::mem::take(&mut link.waiting));
        if out.is_empty() && !ours {
            link.phase = Phase::Idle;
            match owes {
                true => self.dial(at),
                false => {
                    let rest = self.dice.within(MAX_IDLE_PAUSE / 2, MAX_IDLE_PAUSE);
                    self.after(rest, Event::Redial(at, connection));
                }
            }
        } else if link.useful || ours {
            link.backoff = 0;
            self.dial(at);
        } else {
            // Backs off: the same request, sent again on the next connection, may break that one
            // too.
            link.phase = Phase::Dialing;
            link.backoff = (link.backoff * 2).clamp(MIN_BACKOFF, SECOND);
            let backoff = link.backoff;
            self.after(backoff, Event::Dialed(at, connection, false));
        }
        for pending in out {
            self.no_answer(at, pending, true);
        }
    }

    /// Breaks the client's connections to a former run of a node, as keepalive would.
    pub fn drop_stale(&mut self, client: usize) {
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

    /// Drops what a killed process had on its connections.
    pub fn drop_connections(&mut self, client: usize) {
        for links in &mut self.processes[client].links {
            for link in links {
                link.connection += 1;
                let waiting = std::mem::take(&mut link.waiting);
                self.out.push(Delivery::Drop(Box::new(waiting)));
            }
        }
        let releases = std::mem::take(&mut self.processes[client].unconfirmed);
        self.processes[client].unconfirmed = releases.iter().map(|_| Vec::new()).collect();
        self.out.push(Delivery::Drop(Box::new(releases)));
    }
}
