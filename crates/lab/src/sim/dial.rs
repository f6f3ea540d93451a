//! How a connection begins and ends: dialled, greeted, verified, given up, dialled again.

use quorumlock_core::admission::Standing;
use quorumlock_core::{Denial, Lane, NodeReport, Stamp, fingerprint};

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
}

const FIRST_BACKOFF: Micros = 20 * MS;
/// How often an unproven node is looked at again.
const RECHECK: Micros = 250 * MS;

impl Link {
    pub(super) fn stamp(&self) -> Stamp {
        self.greeted.as_ref().map_or(Stamp::NONE, |greeted| greeted.stamp)
    }

    pub(super) fn unproven(&self) -> Option<&Denial> {
        self.greeted.as_ref()?.unproven.as_ref()
    }
}

impl State {
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
        let report = || NodeReport::new(server.label.clone(), "its memory is not proven");
        let (stamp, unproven) = match server.standing() {
            None => (Stamp::NONE, None),
            Some(Standing::Admitted(stamp)) => (stamp, None),
            Some(Standing::Misfit(error)) => (Stamp::NONE, Some(Denial::Config(error))),
            Some(_) => (Stamp::NONE, Some(Denial::NotAdmitted(report()))),
        };
        if stamp != Stamp::NONE && !server.life.scripts.contains(&stamp) {
            server.life.scripts.push(stamp);
        }
        Greeted { stamp, unproven }
    }

    /// The connection is ready: what waited for it goes out.
    pub(super) fn greeted(&mut self, at: LinkId, connection: u64, run: u64, greeted: Greeted) {
        let link = self.link(at);
        if link.connection != connection {
            return;
        }
        let queued = std::mem::take(&mut link.waiting);
        let unproven = greeted.unproven.is_some();
        (link.phase, link.run, link.useful) = (Phase::Up, run, false);
        (link.watched, link.heard) = (false, true);
        link.greeted = Some(greeted);
        if unproven {
            self.note("finds it unproven", Who::both(at.client, at.node), at.lane as u64);
            self.after(RECHECK, Event::Recheck(at, connection));
        }
        for pending in queued {
            self.send_or_object(at, pending);
        }
        self.pay_debts(at);
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
        link.useful = true;
        self.broken(at);
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
                Some(Denial::Stale(NodeReport::new(label.clone(), "verified anew")))
            }
            None => None,
        };
        let Some(denial) = denial else { return self.send(at, pending) };
        self.note_ask("not asked", at, ask);
        if matches!(denial, Denial::NotAdmitted(_)) {
            self.voided(at, ask);
        }
        let report = NodeReport::new(label, "was not asked");
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
            self.broken(at);
        }
    }

    /// What was sent and not answered may have happened.
    pub(super) fn broken(&mut self, at: LinkId) {
        self.note("connection broke", Who::both(at.client, at.node), at.lane as u64);
        let link = self.link(at);
        link.connection += 1;
        let out = std::mem::take(&mut link.waiting);
        if link.useful {
            link.backoff = 0;
            self.dial(at);
        } else {
            link.phase = Phase::Down;
            link.backoff = (link.backoff * 2).clamp(FIRST_BACKOFF, SECOND);
            let (backoff, connection) = (link.backoff, link.connection);
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
    }
}
