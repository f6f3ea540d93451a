//! Requests to a server as bytes.

use std::time::Duration;

use super::dump::hash_of_one;
use super::greet::Greeted;
use super::request::{Dialect, Request};
use super::resp::{bulk, bulk_of, command, decimal, number};
use super::scripts::Script;
use crate::{Name, Nonce, Offer, Spot, Term, Wire};

impl Dialect {
    /// Appends the request, as one or several commands: says how many. What is asked in a transaction is not
    /// asked here (node/plain.rs).
    pub(super) fn encode(
        &self,
        request: &Request,
        (again, as_text): (bool, bool),
        to: &Greeted,
        out: &mut Vec<u8>,
    ) -> usize {
        let scripts = &to.scripts;
        let eval =
            |out: &mut _, script: &Script, keys, args| eval(out, (script, as_text), keys, args);
        match request {
            Request::Acquire { term, proposal, in_line, .. } => {
                let before = in_line.as_ref().and_then(|in_line| in_line.before);
                let (keys, args) = match in_line {
                    None => (2, 4),
                    Some(_) => (3, 7 + usize::from(before.is_some())),
                };
                eval(out, &scripts.acquire, keys, args);
                name_and_mark(&term.name, out);
                if in_line.is_some() {
                    bulk_of(out, term.name.waiters_key_parts());
                }
                self.held_by(term, out);
                number(out, proposal.token.get());
                if let Some(in_line) = in_line {
                    self.stands_as(term.nonce, in_line.offer, out);
                    number(out, micros(in_line.waited));
                    number(out, in_line.others_first.into());
                    if let Some(before) = before {
                        self.stands_as(before, in_line.offer, out);
                    }
                }
            }
            Request::Recreate { term, token, .. } => {
                eval(out, &scripts.recreate, 2, 4);
                name_and_mark(&term.name, out);
                self.held_by(term, out);
                number(out, token.get());
            }
            Request::Raise { term, token, .. } => {
                eval(out, &scripts.raise, 2, 2);
                name_and_mark(&term.name, out);
                self.nonce(term, out);
                number(out, token.get());
            }
            Request::Renew { terms, .. } => {
                eval(out, &scripts.renew, terms.len(), 3 * terms.len());
                for term in terms {
                    bulk(out, term.name.as_str().as_bytes());
                }
                for term in terms {
                    self.held_by(term, out);
                }
            }
            Request::Release {
                term,
                spot: spot @ (None | Some(Spot::Elsewhere)),
                repeat: false,
                ..
            } if !again && self.wakes_nobody(term, to) => {
                match to.deletes_if_ours {
                    true => {
                        command(out, 3);
                        bulk(out, deletes_if_ours(self.wire).as_bytes());
                    }
                    false => eval(out, &scripts.delete_if_ours, 1, 1),
                }
                bulk(out, term.name.as_str().as_bytes());
                self.nonce(term, out);
                // In Redlock's layout nobody listens to a name's channel.
                let publishes = self.wire == Wire::Redisson;
                if spot.is_some() && !publishes {
                    return 1;
                }
                if publishes {
                    command(out, 3);
                    bulk(out, b"PUBLISH");
                    bulk_of(out, term.name.channel_parts());
                    bulk(out, b"0");
                }
                command(out, 2);
                bulk(out, b"EXISTS");
                bulk_of(out, term.name.waiters_key_parts());
                return 2 + usize::from(publishes);
            }
            Request::Release { term, spot, .. } => {
                let args = match spot {
                    None | Some(Spot::Elsewhere) => 1,
                    Some(Spot::Left(_)) => 2,
                    Some(Spot::Kept(_)) => 3,
                    Some(Spot::Again(..)) => 4,
                };
                eval(out, &scripts.release, 4, args);
                bulk(out, term.name.as_str().as_bytes());
                bulk_of(out, term.name.channel_parts());
                bulk_of(out, term.name.waiters_key_parts());
                bulk(out, term.name.mark_key().as_bytes());
                self.nonce(term, out);
                match spot {
                    None | Some(Spot::Elsewhere) => {}
                    Some(Spot::Left(offer)) => self.stands_as(term.nonce, Some(*offer), out),
                    Some(Spot::Kept(waited)) => {
                        self.stands_as(term.nonce, None, out);
                        number(out, micros(*waited));
                    }
                    Some(Spot::Again(nonce, offer)) => {
                        self.stands_as(*nonce, Some(*offer), out);
                        number(out, 0);
                        number(out, millis(offer.claim));
                    }
                }
            }
            Request::Inspect { name, .. } => {
                eval(out, &scripts.inspect, 1, 0);
                bulk(out, name.as_str().as_bytes());
            }
            Request::ForceRelease { name, .. } => {
                eval(out, &scripts.force_release, 4, 0);
                name_and_mark(name, out);
                bulk_of(out, name.channel_parts());
                bulk_of(out, name.waiters_key_parts());
            }
            Request::Leave(name, ours) => {
                eval(out, &scripts.leave, 4, 1);
                bulk(out, name.as_str().as_bytes());
                bulk_of(out, name.waiters_key_parts());
                bulk_of(out, name.channel_parts());
                bulk(out, name.mark_key().as_bytes());
                match ours {
                    true => bulk(out, self.waiter.to_string().as_bytes()),
                    false => bulk(out, b"-"),
                }
            }
            Request::Office { command, .. } => {
                out.extend_from_slice(&command.get_packed_command());
            }
            Request::Aside => {}
        }
        1
    }

    /// Appends what goes ahead of a release that is about to wake somebody: says whether it did.
    ///
    /// Redis and Valkey write first to those who were told something last. By the release alone its sender would
    /// hear before the waiter that it wakes, and ask again while that one sleeps on; with something to be told
    /// already it hears after. A matter of speed only.
    pub(super) fn encode_ahead(&self, request: &Request, out: &mut Vec<u8>) -> bool {
        let Request::Release { term, spot: None | Some(Spot::Again(..)), .. } = request else {
            return false;
        };
        let wakes = self.crowds.were_woken(&term.name);
        if wakes {
            command(out, 2);
            bulk(out, b"EXISTS");
            bulk(out, term.name.as_str().as_bytes());
        }
        wakes
    }

    /// Where nobody is to be woken, the server's own command, or a script that does no more, and one or two
    /// others do what the script does, for half of its time.
    fn wakes_nobody(&self, term: &Term, to: &Greeted) -> bool {
        (to.deletes_if_ours || self.wire == Wire::Redlock) && !self.crowds.wait_for(&term.name)
    }

    pub(super) fn set(&self, term: &Term, out: &mut Vec<u8>) {
        command(out, 6);
        bulk(out, b"SET");
        bulk(out, term.name.as_str().as_bytes());
        self.nonce(term, out);
        bulk(out, b"NX");
        bulk(out, b"PX");
        number(out, millis(term.ttl));
    }

    pub(super) fn restore(&self, term: &Term, out: &mut Vec<u8>) {
        command(out, 4);
        bulk(out, b"RESTORE");
        bulk(out, term.name.as_str().as_bytes());
        number(out, millis(term.ttl));
        self.with_nonce(term.nonce, |nonce| bulk(out, hash_of_one(nonce).as_bytes()));
    }

    /// As what it stands in the queue of a name, under the nonce of what it asks or has asked: see hand.lua.
    fn stands_as(&self, nonce: Nonce, offer: Option<Offer>, out: &mut Vec<u8>) {
        match offer {
            None => bulk(out, self.waiter.to_string().as_bytes()),
            Some(Offer { claim, fencing }) => self.with_nonce(nonce, |nonce| {
                let (nonce, fencing) = (String::from_utf8_lossy(nonce), u8::from(fencing));
                let stands = format!("{} {nonce} {} {fencing}", self.waiter, millis(claim));
                bulk(out, stands.as_bytes());
            }),
        }
    }

    fn held_by(&self, term: &Term, out: &mut Vec<u8>) {
        self.nonce(term, out);
        number(out, millis(term.ttl));
        number(out, term.holds.into());
    }

    fn nonce(&self, term: &Term, out: &mut Vec<u8>) {
        self.with_nonce(term.nonce, |nonce| bulk(out, nonce));
    }

    fn with_nonce(&self, nonce: Nonce, then: impl FnOnce(&[u8])) {
        let nonce = nonce.uuid();
        // Enough for 36 + 1 + 20 bytes.
        let mut text = [0; 64];
        let written = match self.wire {
            Wire::Redlock => nonce.simple().encode_lower(&mut text).len(),
            Wire::Redisson => {
                let mut digits = [0; 20];
                let id = decimal(&mut digits, self.client_id);
                let colon = nonce.hyphenated().encode_lower(&mut text).len();
                text[colon] = b':';
                text[colon + 1..][..id.len()].copy_from_slice(id);
                colon + 1 + id.len()
            }
        };
        then(&text[..written]);
    }
}

/// Deletes a lock if it holds a nonce. A hash goes with its last field, and a lock's has one.
pub(super) fn deletes_if_ours(wire: Wire) -> &'static str {
    match wire {
        Wire::Redisson => "HDEL",
        // Of Valkey 9.
        Wire::Redlock => "DELIFEQ",
    }
}

fn name_and_mark(name: &Name, out: &mut Vec<u8>) {
    bulk(out, name.as_str().as_bytes());
    bulk(out, name.mark_key().as_bytes());
}

/// A script by its digest or, to a server that forgets digests again and again, as text.
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

/// Whole milliseconds, rounded up: the node may hold longer than we believe, never shorter.
pub(super) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}
