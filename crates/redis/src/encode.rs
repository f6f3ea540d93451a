//! Encodes requests to a server as bytes.

use std::time::Duration;

use super::command::{Command, NodeContext};
use super::rdb::hash_of_one;
use super::resp::{bulk, bulk_of, command, number};
use super::scripts::{Script, Tokens};
use super::server_info::ServerInfo;
use quorumlock_protocol::{
    Claim, HandoffOffer, Layout, LeaseRequest, Name, Precedence, QueueAction,
};
use uuid::Uuid;

impl NodeContext {
    /// Appends the request as one or several commands, and returns how many. Acquisitions by
    /// transaction are encoded in txn_acquire.rs.
    #[expect(clippy::too_many_lines, reason = "an arm for each command")]
    pub(super) fn encode(
        &self,
        request: &Command,
        (again, as_text): (bool, bool),
        to: &ServerInfo,
        out: &mut Vec<u8>,
    ) -> usize {
        let scripts = to.scripts.of_claim(request.claim());
        let eval =
            |out: &mut _, script: &Script, keys, args| eval(out, (script, as_text), keys, args);
        let record = scripts.record();
        let proof = usize::from(record.is_some());
        let prove =
            |out: &mut _| record.into_iter().for_each(|record| bulk(out, record.as_bytes()));
        let serving = usize::from(scripts.handoff_record.is_some());
        let serve = |out: &mut _| {
            scripts.handoff_record.iter().for_each(|record| bulk(out, record.as_bytes()));
        };
        match request {
            Command::Acquire { lease, token, hints, .. } => {
                let enqueue = hints.enqueue();
                let before = enqueue.map_or(&[][..], |enqueue| &enqueue.earlier);
                let looks_at_queue = enqueue.is_some() || self.strict_order;
                let (keys, args) = match looks_at_queue {
                    false => (2, 4),
                    true => (3, 7 + before.len()),
                };
                let slots = lease.claim.slots().unwrap_or(0);
                let keys = keys * lease.claim.count() + usize::from(slots);
                let counted = self.tokens == Tokens::Counted;
                eval(out, &scripts.acquire, keys + usize::from(counted) + proof, args);
                names_and_marks(&lease.claim, out);
                if looks_at_queue {
                    lease.claim.names().for_each(|name| bulk_of(out, name.waiters_key_parts()));
                }
                for slot in lease.claim.every_slot() {
                    bulk(out, slot.name().as_str().as_bytes());
                }
                if counted {
                    bulk_of(out, lease.name().counter_key_parts());
                }
                prove(out);
                self.held_by(lease, out);
                number(out, token.get());
                if let Some(enqueue) = enqueue {
                    self.queue_member(lease, enqueue.handoff, out);
                    number(out, micros(enqueue.waited));
                    number(out, precedence(enqueue.precedence));
                    for (nonce, offer) in before {
                        let earlier = LeaseRequest { nonce: *nonce, ..lease.clone() };
                        self.queue_member(&earlier, Some(*offer), out);
                    }
                } else if self.strict_order {
                    // It is not queued, and yields to those that are.
                    bulk(out, NO_MEMBER);
                    number(out, 0);
                    number(out, precedence(Precedence::Yields));
                }
            }
            Command::Regrant { lease, token, .. } => {
                eval(out, &scripts.regrant, 2 * lease.claim.count() + proof, 4);
                names_and_marks(&lease.claim, out);
                prove(out);
                self.held_by(lease, out);
                number(out, token.get());
            }
            Command::Raise { lease, token, .. } => {
                eval(out, &scripts.raise, 2 * lease.claim.count() + proof, 2);
                names_and_marks(&lease.claim, out);
                prove(out);
                self.nonce(lease, out);
                number(out, token.get());
            }
            Command::Renew { leases, .. } => {
                eval(out, &scripts.renew, leases.len() + proof, 3 * leases.len());
                for lease in leases {
                    bulk(out, lease.name().as_str().as_bytes());
                }
                prove(out);
                for lease in leases {
                    self.held_by(lease, out);
                }
            }
            Command::Release { lease, queue_action: None, repeat: None, .. }
                if !again && self.notifies_nobody(lease, to) =>
            {
                match to.deletes_if_ours {
                    true => {
                        command(out, 3);
                        bulk(out, deletes_if_ours(self.layout).as_bytes());
                    }
                    false => eval(out, &scripts.delete_if_ours, 1, 1),
                }
                bulk(out, lease.name().as_str().as_bytes());
                self.nonce(lease, out);
                // In the Redlock layout no client subscribes to a name's channel.
                let publishes = self.layout == Layout::Redisson;
                if publishes {
                    command(out, 3);
                    bulk(out, b"PUBLISH");
                    bulk_of(out, lease.name().channel_parts());
                    bulk(out, b"0");
                }
                command(out, 2);
                bulk(out, b"EXISTS");
                bulk_of(out, lease.name().waiters_key_parts());
                return 2 + usize::from(publishes);
            }
            Command::Release { lease, queue_action, .. } => {
                let args = match queue_action {
                    None => 1,
                    Some(QueueAction::Leave(_)) => 2,
                    Some(QueueAction::KeepPlace(_)) => 3,
                };
                eval(out, &scripts.release, 4 + serving, args);
                bulk(out, lease.name().as_str().as_bytes());
                bulk_of(out, lease.name().channel_parts());
                bulk_of(out, lease.name().waiters_key_parts());
                bulk(out, lease.name().mark_key().as_bytes());
                serve(out);
                self.nonce(lease, out);
                match queue_action {
                    None => {}
                    Some(QueueAction::Leave(offer)) => self.queue_member(lease, Some(*offer), out),
                    Some(QueueAction::KeepPlace(waited)) => {
                        self.queue_member(lease, None, out);
                        number(out, micros(*waited));
                    }
                }
            }
            Command::Inspect { claim, .. } => {
                eval(out, &scripts.inspect, 3, 0);
                name_and_mark(claim.name(), out);
                bulk_of(out, claim.name().waiters_key_parts());
            }
            Command::ForceRelease { claim, holder, .. } => {
                let name = claim.name();
                eval(out, &scripts.force_release, 4 + serving, usize::from(holder.is_some()));
                name_and_mark(name, out);
                bulk_of(out, name.channel_parts());
                bulk_of(out, name.waiters_key_parts());
                serve(out);
                holder.iter().for_each(|holder| bulk(out, holder.as_bytes()));
            }
            Command::Dequeue(claim, ours) => {
                let name = claim.name();
                eval(out, &scripts.dequeue, 4 + serving, 1);
                bulk(out, name.as_str().as_bytes());
                bulk_of(out, name.waiters_key_parts());
                bulk_of(out, name.channel_parts());
                bulk(out, name.mark_key().as_bytes());
                serve(out);
                match ours {
                    true => bulk(out, self.queued_as(claim).as_bytes()),
                    false => bulk(out, NO_MEMBER),
                }
            }
            Command::Raw { command, .. } => {
                out.extend_from_slice(&command.get_packed_command());
            }
            Command::LookAtSetup => to.setup.iter().for_each(|setup| setup.ask(out)),
            Command::NoReply => {}
        }
        1
    }

    /// Whether the release can go without the release script, because no waiter is known. A command
    /// of the server that deletes the lock (or a script that only does so) and one or two further
    /// commands then do the same for half of the server's time.
    fn notifies_nobody(&self, lease: &LeaseRequest, to: &ServerInfo) -> bool {
        (to.deletes_if_ours || self.layout == Layout::Redlock)
            && !lease.claim.is_read_write()
            && !self.contended.wait_for(lease.name())
    }

    pub(super) fn set(&self, lease: &LeaseRequest, out: &mut Vec<u8>) {
        command(out, 6);
        bulk(out, b"SET");
        bulk(out, lease.name().as_str().as_bytes());
        self.nonce(lease, out);
        bulk(out, b"NX");
        bulk(out, b"PX");
        number(out, self.millis_at_node(lease.ttl));
    }

    pub(super) fn restore(&self, lease: &LeaseRequest, out: &mut Vec<u8>) {
        command(out, 4);
        bulk(out, b"RESTORE");
        bulk(out, lease.name().as_str().as_bytes());
        number(out, self.millis_at_node(lease.ttl));
        self.with_nonce(lease, |nonce| bulk(out, hash_of_one(nonce).as_bytes()));
    }

    /// Appends the queue member: `WAITER KIND`, or with an offer `WAITER KIND NONCE TTL_MS FENCING`, with
    /// the nonce of the queued attempt (queue.lua).
    fn queue_member(&self, lease: &LeaseRequest, offer: Option<HandoffOffer>, out: &mut Vec<u8>) {
        let queued_as = self.queued_as(&lease.claim);
        match offer {
            None => bulk(out, queued_as.as_bytes()),
            Some(HandoffOffer { ttl, fencing }) => self.with_nonce(lease, |nonce| {
                let (nonce, fencing) = (String::from_utf8_lossy(nonce), u8::from(fencing));
                let member = format!("{queued_as} {nonce} {} {fencing}", self.millis_at_node(ttl));
                bulk(out, member.as_bytes());
            }),
        }
    }

    /// The queue member of a waiter without an offer.
    fn queued_as(&self, claim: &Claim) -> String {
        let kind = match self.layout {
            _ if claim.reads() => "read",
            _ if claim.is_read_write() => "write",
            _ if claim.slots().is_some() => "permit",
            _ if claim.is_of_set() => "set",
            Layout::Redisson => "hash",
            Layout::Redlock => "string",
        };
        format!("{} {kind}", self.waiter)
    }

    /// For how long a node keeps a lease: the takeover delay is added (PROTOCOL.md WIN3).
    pub(super) fn millis_at_node(&self, lease: Duration) -> u64 {
        millis(lease + self.delay)
    }

    fn held_by(&self, lease: &LeaseRequest, out: &mut Vec<u8>) {
        self.nonce(lease, out);
        number(out, self.millis_at_node(lease.ttl));
        number(out, lease.holds.into());
    }

    fn nonce(&self, lease: &LeaseRequest, out: &mut Vec<u8>) {
        self.with_nonce(lease, |nonce| bulk(out, nonce));
    }

    /// The nonce in the form of the claim's layout.
    fn with_nonce(&self, lease: &LeaseRequest, then: impl FnOnce(&[u8])) {
        let nonce = Uuid::from_u128(lease.nonce.as_u128());
        // Enough for 36 + 2 bytes.
        let mut text = [0; 64];
        let written = match self.layout {
            _ if lease.claim.is_read_write() => {
                let length = nonce.simple().encode_lower(&mut text).len();
                let mode = if lease.claim.reads() { b":r" } else { b":w" };
                text[length..length + 2].copy_from_slice(mode);
                length + 2
            }
            Layout::Redlock => nonce.simple().encode_lower(&mut text).len(),
            Layout::Redisson => {
                let length = nonce.hyphenated().encode_lower(&mut text).len();
                text[length..][..THREAD.len()].copy_from_slice(THREAD);
                length + THREAD.len()
            }
        };
        then(&text[..written]);
    }
}

/// Ends our fields in Redisson's layout, as the id of a thread does there. Another process can name a hold
/// by its nonce alone.
const THREAD: &[u8] = b":1";

/// No queue has this member.
const NO_MEMBER: &[u8] = b"-";

/// The argument 7 of the acquire script (wait_queue.lua).
fn precedence(precedence: Precedence) -> u64 {
    match precedence {
        Precedence::AsItComes => 0,
        Precedence::Yields => 1,
        Precedence::Notified => 2,
        Precedence::Turn => 3,
    }
}

/// The command that deletes a lock if it holds a nonce. The server deletes a hash with its last
/// field, and the hash of a lock has one field.
pub(super) fn deletes_if_ours(layout: Layout) -> &'static str {
    match layout {
        Layout::Redisson => "HDEL",
        // Since Valkey 9.
        Layout::Redlock => "DELIFEQ",
    }
}

fn names_and_marks(claim: &Claim, out: &mut Vec<u8>) {
    claim.names().for_each(|name| bulk(out, name.as_str().as_bytes()));
    claim.names().for_each(|name| bulk(out, name.mark_key().as_bytes()));
}

fn name_and_mark(name: &Name, out: &mut Vec<u8>) {
    bulk(out, name.as_str().as_bytes());
    bulk(out, name.mark_key().as_bytes());
}

/// Appends a script call: by the digest, or as text to a server that keeps forgetting digests.
fn eval(out: &mut Vec<u8>, (script, as_text): (&Script, bool), keys: usize, args: usize) {
    command(out, 3 + keys + args);
    let (verb, name) = match as_text {
        false => (&b"EVALSHA"[..], &script.digest),
        true => (&b"EVAL"[..], &script.text),
    };
    bulk(out, verb);
    bulk(out, name.as_bytes());
    number(out, keys as u64);
}

/// Whole milliseconds, rounded up: the node may hold the lease for longer than we assume, never for
/// less.
fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}
