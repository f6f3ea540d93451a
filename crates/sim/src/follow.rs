//! Follows requests on their way to a node, and the messages of nodes to subscribers.

use quorumlock_protocol::{Claim, FencingToken, Instant, Nonce, RemoteGrant, quorum_of};
use quorumlock_redis::simulation::ScriptKind;

use super::arrival::{Arrival, ConnId};
use super::commands::Published;
use super::event::{Event, Notification};
use super::faults::Assumption;
use super::invariants::{leak, wake};
use super::lease_command::{LeaseCommand, Verb};
use super::mutants;
use super::resp::Reply;
use super::sometimes::Sometimes;
use super::time::{MS, SECOND};
use super::trace::Who;
use super::world::{Delivery, State};

impl State {
    /// A client has written a request.
    pub fn request_written(&mut self, node: usize, lease_command: &LeaseCommand) {
        for nonce in &lease_command.nonces {
            let Some(view) = self.ledger.view(node, *nonce) else { continue };
            view.travelling += 1;
            view.written += 1;
            if lease_command.verb == Some(Verb::Release) {
                // Also a handoff that no task took: its client never believed in it, or does no longer.
                view.until = Instant::NEVER;
                view.releases_written += 1;
                if view.releases_written > view.releases {
                    self.see(Sometimes::ReleaseRepeated);
                }
            }
        }
    }

    /// Requests will never reach their node.
    pub fn requests_lost(&mut self, arrival: &Arrival) {
        for nonce in arrival.lease_commands.iter().flat_map(|lease_command| &lease_command.nonces) {
            if let Some(view) = self.ledger.view(arrival.conn.node, *nonce) {
                view.travelling -= 1;
                view.tainted = true;
            }
        }
    }

    /// A node has executed a command.
    pub fn executed(
        &mut self,
        id: ConnId,
        (lease_command, reply): (&LeaseCommand, &Reply),
        current: bool,
    ) {
        if let Some(script) = &lease_command.script {
            self.script_ran(id, script.kind, script.stamp.is_some(), reply);
        }
        let Some(verb) = lease_command.verb else { return };
        for (at, nonce) in lease_command.nonces.iter().enumerate() {
            let Some(number) = self.ledger.number(*nonce) else { continue };
            let view = &mut self.ledger.attempts[number].nodes[id.node];
            let acquires = matches!(verb, Verb::Acquire | Verb::TxnAcquire);
            let late = view.last == "release" && acquires;
            view.travelling -= 1;
            view.tainted |= !current;
            if !matches!(reply, Reply::Error(_)) {
                view.last = verb.name();
            }
            record(view, verb, at, reply);
            if late {
                self.see(Sometimes::ExecutedAfterRelease);
            }
            if verb == Verb::Raise && matches!(reply, Reply::Int(mark) if *mark > 0) {
                self.see(Sometimes::RaiseMoved);
            }
            if acquires {
                let granted = matches!(reply, Reply::Int(_) | Reply::Status(_));
                self.trigger_withheld_votes((id.client, id.node), *nonce, granted, false);
                if granted {
                    wake::taken(self, id.node, number);
                }
            }
            match (verb, reply) {
                (Verb::Acquire, Reply::Array(items))
                    if matches!(items[..], [Reply::Int(_), ..]) =>
                {
                    wake::refused(self, id.node, number, &lease_command.earlier);
                }
                (Verb::Release, Reply::Int(_)) if !lease_command.keeps_place => {
                    wake::released(self, id.node, number);
                }
                _ => {}
            }
            let who = Who::both(id.client, id.node).on(Some(number));
            self.note(outcome(at, reply), who, verb.number());
            leak::check(self, id.node, number);
        }
    }

    fn script_ran(&mut self, id: ConnId, kind: ScriptKind, bound: bool, reply: &Reply) {
        let refused = |code: &str| matches!(reply, Reply::Error(text) if text.starts_with(code));
        if bound && (refused("UNPROVEN") || refused("NOSCRIPT")) {
            self.see(Sometimes::UnprovenScript);
        }
        if kind == ScriptKind::Admit && *reply == Reply::Int(1) {
            // One read of the helpers serves all nodes of a pass.
            let mut helpers = self.processes[id.client].helpers.clone();
            helpers.remove(&id.node);
            if helpers.len() >= quorum_of(self.plan.nodes) {
                self.see(Sometimes::Repaired);
            } else {
                // A cold start: from now on the order of tokens rests on the clocks.
                self.see(Sometimes::ColdStart);
                self.note("cold start", Who::both(id.client, id.node), helpers.len() as u64);
                self.broken.insert(Assumption::Marks);
            }
        }
    }

    /// Sends a message to a subscriber. The message may get lost, with the connection.
    pub fn publish(&mut self, node: usize, published: Published) {
        let Published { conn, channel, payload } = published;
        let Some(id) = self.conns.get(&conn).map(|conn| conn.id) else { return };
        let Some(notification) = notification_of(&channel, &payload) else { return };
        let nonce = handoff_of(&notification).map(|handoff| handoff.nonce);
        if let Some(number) = nonce.and_then(|nonce| self.ledger.number(nonce)) {
            self.ledger.attempts[number].nodes[node].last = "hand over";
            wake::check_handoff(self, node, number);
        }
        let lost = !self.healed && self.dice.chance(self.plan.odds.lost_message);
        let arrives = self.answer_at(id);
        let Some(conn) = self.conns.get_mut(&conn) else { return };
        if lost && !conn.loses_in {
            // Nothing arrives any more, until the client or its kernel notices.
            conn.loses_in = true;
            let notices = self.dice.spread(MS, SECOND);
            self.after(notices, Event::Reset(id));
        }
        let Some(conn) = self.conns.get_mut(&id.number) else { return };
        let gone = !conn.is_open() || conn.loses_in;
        if let Some(view) = nonce.and_then(|nonce| self.ledger.view(node, nonce)) {
            match gone {
                true => view.tainted = true,
                false => view.travelling += 1,
            }
        }
        if let (false, Some(arrives)) = (gone, arrives) {
            let mut bytes = Vec::new();
            let parts = [b"message".to_vec(), channel, payload];
            Reply::Array(parts.into_iter().map(Reply::Text).collect()).write(&mut bytes);
            self.at(arrives, Event::Message(id, bytes, notification));
        }
    }

    pub fn message(&mut self, id: ConnId, bytes: &[u8], notification: Notification) {
        let (client, node) = (id.client, id.node);
        let handoff = handoff_of(&notification);
        if let Some(view) = handoff.and_then(|handoff| self.ledger.view(node, handoff.nonce)) {
            view.travelling -= 1;
        }
        let arrives = self.conns.get(&id.number).is_some_and(|conn| conn.is_open());
        let attempt = handoff.and_then(|handoff| self.ledger.number(handoff.nonce));
        if !arrives {
            if let Some(number) = attempt {
                self.ledger.attempts[number].nodes[node].tainted = true;
            }
            return;
        }
        self.note("message", Who::both(client, node).on(attempt), 0);
        self.processes[client].wake_ups.0 |= !matches!(notification, Notification::Forced);
        if let Notification::Handoff(claim, handoff) = &notification {
            if let Some(attempt) = attempt {
                self.record_lost_handoff((client, node), claim, attempt);
                mutants::hears_late(self, (client, node), attempt);
            }
            if self.processes[client].waits_for(node, claim) {
                self.ledger.handed_off(node, handoff.nonce, self.now);
                self.see(Sometimes::HandoffTaken);
            } else {
                // The client's waiter has given up. The request by which it left the queue also
                // releases the name.
                self.see(Sometimes::HandoffLost);
            }
        }
        if let Some(conn) = self.conns.get_mut(&id.number) {
            conn.inbound.extend_from_slice(bytes);
            self.out.extend(conn.reader.take().map(Delivery::Wake));
        }
    }

    /// An event for a client that is dead.
    pub fn unheard(&mut self, event: Event) {
        if let Event::Message(id, _, notification) = event
            && let Some(handoff) = handoff_of(&notification)
            && let Some(view) = self.ledger.view(id.node, handoff.nonce)
        {
            view.travelling -= 1;
        }
    }
}

/// Records what the node itself answered (definite noes, top-ups), whether or not the answer
/// reaches the client.
fn record(view: &mut super::ledger::View, verb: Verb, at: usize, reply: &Reply) {
    let no = match (verb, reply) {
        (Verb::Renew, Reply::Array(items)) => items.get(at) == Some(&Reply::Int(0)),
        (Verb::Raise, Reply::Nil) | (Verb::Regrant, Reply::Array(_)) => true,
        _ => false,
    };
    match (verb, reply) {
        (Verb::Regrant, Reply::Int(1)) => view.regranted = true,
        (Verb::Release, Reply::Int(1..)) => view.freed = true,
        _ if no => (view.denied, view.regranted) = (true, false),
        _ => {}
    }
}

/// The text of a reply in the trace.
fn outcome(at: usize, reply: &Reply) -> &'static str {
    match reply {
        Reply::Int(0) => "done: 0",
        Reply::Int(1) => "done: 1",
        Reply::Int(_) => "done: more than 1",
        Reply::Nil => "done: nil",
        Reply::Status(_) => "done: OK",
        Reply::Error(text) if text.starts_with("UNPROVEN") => "done: UNPROVEN",
        Reply::Error(text) if text.starts_with("NOSCRIPT") => "done: NOSCRIPT",
        Reply::Error(_) => "done: error",
        Reply::Array(items) if items.len() > 1 => {
            items.get(at).map_or("done", |item| outcome(at, item))
        }
        Reply::Array(_) => "done: refused",
        Reply::Text(_) => "done",
    }
}

fn handoff_of(notification: &Notification) -> Option<RemoteGrant> {
    match notification {
        Notification::Handoff(_, handoff) => Some(*handoff),
        Notification::Head(_) | Notification::Released | Notification::Forced => None,
    }
}

/// What a message tells, as the client reads it.
fn notification_of(channel: &[u8], payload: &[u8]) -> Option<Notification> {
    let text = std::str::from_utf8(payload).ok()?;
    if channel.starts_with(b"quorumlock:wake:") {
        return Some(Notification::Head(Claim::of_message(text).ok()?));
    }
    if channel.starts_with(b"quorumlock:forced:") {
        return Some(Notification::Forced);
    }
    if !channel.starts_with(b"quorumlock:handoff:") {
        return Some(Notification::Released);
    }
    let mut parts = text.splitn(3, ' ');
    let nonce = Nonce::parse(parts.next()?)?;
    let token = FencingToken::new(parts.next()?.parse().ok()?);
    let claim = Claim::of_message(parts.next()?).ok()?;
    Some(Notification::Handoff(claim, RemoteGrant { nonce, token }))
}
