//! Connections between clients and nodes: byte streams that are dialled, delayed, cut and broken.
//! Bytes within a stream keep their order.

use quorumlock_redis::simulation::ScriptKind;

use super::arrival::{Arrival, ConnId};
use super::conn::{Conn, Phase};
use super::event::{Event, Moment};
use super::lease_command::{LeaseCommand, Verb};
use super::peer::Peer;
use super::resp::Commands;
use super::sometimes::Sometimes;
use super::time::{MS, SECOND};
use super::trace::Who;
use super::world::{Delivery, State};

impl State {
    /// A client dials a node.
    pub fn dial(&mut self, client: usize, node: usize) -> ConnId {
        let id = ConnId { number: self.dialled, client, node };
        self.dialled += 1;
        let mut conn = Conn::new(id);
        if self.processes.get(client).is_none_or(|process| process.dead) {
            conn.phase = Phase::Refused;
        } else {
            let delay = 2 * self.latency(client, node);
            self.after(delay, Event::Dialed(id));
        }
        self.conns.insert(id.number, conn);
        id
    }

    pub fn dialed(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(&id.number) else { return };
        if conn.phase != Phase::Dialing || conn.closed {
            return;
        }
        let slot = self.processes[id.client].slot;
        let (requests, replies) = self.cuts[slot][id.node];
        let cut = requests.max(replies);
        if cut > self.now {
            // Nothing refuses the connection. The client waits, until its connect timeout.
            return self.at(cut + MS, Event::Dialed(id));
        }
        let server = &self.servers[id.node];
        let (run, down) = (server.run.number, server.run.down);
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        if down {
            conn.phase = Phase::Refused;
        } else {
            (conn.phase, conn.run) = (Phase::Up, run);
            conn.peer = Some(Peer::new(id.number, id.client));
        }
        self.out.extend(conn.wakers().map(Delivery::Wake));
    }

    /// A client writes to its end of a connection. Returns how many bytes the stream takes now.
    pub fn written(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let now = self.now;
        let odds = self.plan.odds;
        let Some(conn) = self.conns.get_mut(&id.number) else { return bytes.len() };
        let mut length = bytes.len();
        if !self.healed && length > 1 && self.dice.chance(odds.reorder) {
            length = self.dice.within(1, length as u64 - 1) as usize;
            conn.full_until = now + self.dice.within(0, 5 * MS);
            self.see(Sometimes::HalfWritten);
        }
        let Some(conn) = self.conns.get_mut(&id.number) else { return length };
        conn.partial.extend_from_slice(&bytes[..length]);
        let commands = Commands::take(&mut conn.partial);
        if commands.is_empty() {
            return length;
        }
        let lease_commands: Vec<_> = commands.iter().map(LeaseCommand::of).collect();
        for lease_command in &lease_commands {
            self.request_written(id.node, lease_command);
        }
        self.send(Arrival { conn: id, commands, lease_commands });
        length
    }

    fn send(&mut self, arrival: Arrival) {
        let (id, odds) = (arrival.conn, self.plan.odds);
        let mut arrives = self.now + self.latency(id.client, id.node);
        let (cut, _) = self.cuts[self.processes[id.client].slot][id.node];
        if cut > self.now {
            // TCP retransmits until the cut is over.
            arrives += cut - self.now;
        }
        let (lost, late) = match self.healed {
            true => (false, false),
            false => {
                (self.dice.chance(odds.drop_request / 4.0), self.dice.chance(odds.duplicate / 4.0))
            }
        };
        if late {
            // The client gives the connection up. The kernel still holds the bytes.
            arrives += self.dice.spread(MS, SECOND);
            self.break_conn(id);
            self.taint_all(&arrival);
        }
        arrives += self.before_raises(&arrival);
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        arrives = arrives.max(conn.last_out);
        conn.last_out = arrives;
        conn.loses_out |= lost;
        if conn.loses_out {
            self.note("lost request", Who::both(id.client, id.node), 0);
            self.requests_lost(&arrival);
        } else {
            self.at(arrives, Event::Arrive(arrival));
        }
        if !self.healed && self.dice.chance(odds.stop) {
            self.after(0, Event::Fault(Some(Moment::Sent(id.client))));
        }
    }

    /// An eviction drops the lock just before a raise. The raise is late, so that other clients take
    /// the name first. Returns by how much.
    fn before_raises(&mut self, arrival: &Arrival) -> u64 {
        let raises = arrival
            .lease_commands
            .iter()
            .filter(|lease_command| lease_command.verb == Some(Verb::Raise));
        let nonces = raises.flat_map(|lease_command| &lease_command.nonces);
        let numbers = nonces.filter_map(|nonce| self.ledger.number(*nonce));
        let names: Vec<_> = numbers
            .flat_map(|number| self.ledger.attempts[number].claim.names().cloned())
            .collect();
        if names.is_empty() || self.healed || !self.dice.chance(self.plan.odds.evict) {
            return 0;
        }
        self.after(0, Event::Fault(Some(Moment::Raising(arrival.conn.node, names))));
        self.dice.spread(MS, self.plan.answer_timeout * 3 / 4)
    }

    /// Commands reach their node.
    pub fn arrive(&mut self, arrival: Arrival) {
        let id = arrival.conn;
        let server = &mut self.servers[id.node];
        if server.run.down {
            return self.requests_lost(&arrival);
        }
        let run = server.run.number;
        let alive = self.conns.get(&id.number);
        let alive = alive.is_some_and(|conn| conn.run == run && conn.peer.is_some());
        if !alive {
            self.requests_lost(&arrival);
            // A new process answers data for an old connection by closing it.
            let delay = self.latency(id.client, id.node);
            return self.after(delay, Event::Reset(id));
        }
        if server.run.stopped {
            return server.run.backlog.push(arrival);
        }
        self.execute(&arrival);
    }

    fn execute(&mut self, arrival: &Arrival) {
        let (id, now) = (arrival.conn, self.now);
        let Some(mut peer) = self.conns.get_mut(&id.number).and_then(|conn| conn.peer.take())
        else {
            return self.requests_lost(arrival);
        };
        let current = self.conns.get(&id.number).is_some_and(Conn::is_open);
        let mut out = Vec::new();
        for (number, lease_command) in arrival.lease_commands.iter().enumerate() {
            if lease_command.is(ScriptKind::NodeInfo) {
                super::mutants::trusts_uptime(self, id.node);
            }
            let was = lease_command.is(ScriptKind::Barrier) && self.servers[id.node].admitted();
            let args = arrival.commands.args(number);
            let server = &mut self.servers[id.node];
            let effects = peer.command(server, (args, lease_command), now, &mut out);
            for seen in effects.seen {
                self.see(seen);
            }
            if lease_command.is(ScriptKind::NodeInfo) {
                self.identified(id.node);
            }
            if was {
                self.processes[id.client].helpers.insert(id.node);
            }
            if let Some(reply) = &effects.reply {
                self.executed(id, (lease_command, reply), current);
            }
            for (lease_command, reply) in &effects.transaction {
                self.executed(id, (lease_command, reply), current);
            }
            for published in effects.published {
                self.publish(id.node, published);
            }
        }
        if let Some(conn) = self.conns.get_mut(&id.number) {
            conn.peer = Some(peer);
        }
        self.reply(id, out);
    }

    /// A node writes to its end of a connection.
    fn reply(&mut self, id: ConnId, mut bytes: Vec<u8>) {
        let Some(arrives) = self.answer_at(id) else { return };
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        if bytes.is_empty() || !conn.is_open() || conn.loses_in {
            return;
        }
        if !self.healed && self.dice.chance(self.plan.odds.drop_reply / 4.0) {
            // The rest of the reply never arrives, nor does anything after it.
            conn.loses_in = true;
            bytes.truncate(self.dice.index(bytes.len()));
            self.note("lost reply", Who::both(id.client, id.node), 0);
        }
        self.at(arrives, Event::Bytes(id, bytes));
    }

    /// When bytes that the node sends now arrive at the client.
    pub fn answer_at(&mut self, id: ConnId) -> Option<u64> {
        let mut arrives = self.now + self.latency(id.client, id.node);
        let (_, cut) = self.cuts[self.processes[id.client].slot][id.node];
        if cut > self.now {
            arrives += cut - self.now;
        }
        let conn = self.conns.get_mut(&id.number)?;
        conn.last_in = arrives.max(conn.last_in);
        Some(conn.last_in)
    }

    pub fn bytes(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        if conn.is_open() {
            conn.inbound.extend_from_slice(bytes);
            self.out.extend(conn.reader.take().map(Delivery::Wake));
        }
    }

    pub fn writable(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id.number) {
            self.out.extend(conn.writer.take().map(Delivery::Wake));
        }
    }

    /// The client's end of a connection breaks now.
    pub fn reset(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        if conn.phase == Phase::Up {
            conn.phase = Phase::Reset;
            self.out.extend(conn.wakers().map(Delivery::Wake));
            self.note("connection broke", Who::both(id.client, id.node), 0);
        }
    }

    /// The client closes its end, or its process ends.
    pub fn close(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        conn.closed = true;
        (conn.reader, conn.writer) = (None, None);
        if conn.peer.is_none() {
            self.conns.remove(&id.number);
            return;
        }
        // The kernel may discard what it has not sent yet.
        let last = if self.dice.chance(0.5) { conn.last_out } else { 0 };
        let arrives = (self.now + self.latency(id.client, id.node)).max(last);
        self.at(arrives, Event::Closed(id));
    }

    /// The node learns that its client has closed the connection.
    pub fn closed(&mut self, id: ConnId) {
        self.end_peer(id);
        if self.conns.get(&id.number).is_some_and(|conn| conn.closed) {
            self.conns.remove(&id.number);
        }
    }

    /// The node's end of a connection ends.
    pub fn end_peer(&mut self, id: ConnId) {
        let peer = self.conns.get_mut(&id.number).and_then(|conn| conn.peer.take());
        if let Some(mut peer) = peer {
            peer.close(&mut self.servers[id.node]);
        }
    }

    /// Something between client and node breaks the connection. What is on its way to the node may
    /// still arrive there.
    pub fn break_conn(&mut self, id: ConnId) {
        let delay = self.latency(id.client, id.node);
        self.after(delay, Event::Reset(id));
    }

    /// The connections of a client to a node.
    pub fn conns_of(&self, client: usize, node: usize) -> Vec<ConnId> {
        let of = |conn: &&Conn| conn.id.client == client && conn.id.node == node && !conn.closed;
        self.conns.values().filter(of).map(|conn| conn.id).collect()
    }

    /// Whether messages come over the connection.
    pub fn subscribes(&self, id: ConnId) -> bool {
        let peer = self.conns.get(&id.number).and_then(|conn| conn.peer.as_ref());
        peer.is_some_and(|peer| !peer.channels.is_empty())
    }

    /// Breaks the connections of a client to a node. Dials on their way are answered.
    pub fn break_connections(&mut self, client: usize, node: usize) {
        for id in self.conns_of(client, node) {
            match self.conns[&id.number].phase {
                Phase::Dialing => {
                    let delay = self.latency(client, node);
                    self.after(delay, Event::Dialed(id));
                }
                _ => self.break_conn(id),
            }
        }
    }

    /// Breaks the client's connections to former runs of nodes, and those that lose what is sent,
    /// as keepalive would.
    pub fn drop_stale(&mut self, client: usize) {
        let stale = |conn: &&Conn| {
            let run = self.servers[conn.id.node].run.number;
            let lossy = conn.loses_in || conn.loses_out;
            conn.id.client == client && conn.is_open() && (conn.run != run || lossy)
        };
        let stale: Vec<_> = self.conns.values().filter(stale).map(|conn| conn.id).collect();
        for id in stale {
            self.after(MS, Event::Reset(id));
        }
    }

    fn taint_all(&mut self, arrival: &Arrival) {
        for nonce in arrival.lease_commands.iter().flat_map(|lease_command| &lease_command.nonces) {
            if let Some(view) = self.ledger.view(arrival.conn.node, *nonce) {
                view.tainted = true;
            }
        }
    }
}
