//! A client is caught in mid-round, when one node has granted its nonce and the others have not been
//! asked; that node forgets, is repaired, and others acquire meanwhile. Either its machine freezes
//! before it hears of the grant, clock and all: tokens must survive that without any help of time
//! (SAFETY.md, Lost marks, form b). Or it is stopped when it has heard of it: until that lease is over
//! nobody else may believe in that node.

use quorumlock_core::{Nonce, quorum_of};

use super::ask::Ask;
use super::faults::Fault;
use super::link::{LinkId, Phase};
use super::server::Server;
use super::time::{MS, Micros, SECOND};
use super::world::State;

/// Somebody waits for this round to reach that node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ambush {
    nonce: Nonce,
    victim: usize,
    /// The other nodes are asked over connections that are cut, or dialled anew.
    dials: bool,
    /// It hears of the grant first.
    told: bool,
    lasts: Micros,
    /// Until then nobody else is ambushed.
    over: Micros,
    sprung: bool,
}

impl State {
    /// A client is about to send an acquisition to a node.
    pub(super) fn lay_ambush(&mut self, at: LinkId, ask: &Ask) {
        let Ask::Acquire(term, ..) = ask else { return };
        if !self.plan.siege || self.healed || self.processes[at.client].stopped {
            return;
        }
        let fresh = !self.ledger.tokens.contains_key(&term.name);
        if self.ambush.is_none_or(|last| last.over < self.now) && at.node == 0 && fresh {
            let whole = self.servers.iter().all(Server::admitted);
            let ready = self.link(at).phase == Phase::Up;
            if ready && whole && self.dice.chance(0.5) {
                let (victim, dials) = (self.dice.index(self.plan.nodes), self.dice.chance(0.5));
                let told = self.dice.chance(0.3);
                let quarantine = self.plan.quarantine() * 11 / 10;
                let lasts = quarantine + self.dice.spread(500 * MS, 3 * SECOND);
                let nonce = term.nonce;
                let over = self.now + 2 * lasts;
                self.ambush =
                    Some(Ambush { nonce, victim, dials, told, lasts, over, sprung: false });
            }
        }
        let Some(ambush) = self.ambush.filter(|a| a.nonce == term.nonce && !a.sprung) else {
            return;
        };
        let size = self.plan.nodes;
        let rank = (at.node + size - ambush.victim) % size;
        let slot = self.processes[at.client].slot;
        if rank == 0 {
            return;
        }
        if rank >= quorum_of(size) {
            // Not needed for a majority, and with the victim one for the others.
            self.cuts[slot][at.node].0 = self.now + ambush.lasts + 3 * SECOND;
        } else if ambush.dials && self.link(at).phase == Phase::Up {
            self.link(at).useful = true;
            self.broken(at, false);
        } else {
            // What is on its way gets through when the cut is over.
            self.cuts[slot][at.node].0 = self.now + ambush.lasts;
        }
    }

    /// A node has executed an acquisition, or its client has been told.
    pub(super) fn spring_ambush(&mut self, at: LinkId, ask: &Ask, granted: bool, told: bool) {
        let Ask::Acquire(term, ..) = ask else { return };
        let Some(ambush) = &mut self.ambush else { return };
        let ours = ambush.nonce == term.nonce && ambush.victim == at.node && !ambush.sprung;
        if !ours || ambush.told != told {
            return;
        }
        ambush.sprung = true;
        let lasts = ambush.lasts;
        if granted && !self.healed && !self.processes[at.client].stopped {
            let stop = if told { Fault::ClientPause } else { Fault::ClientFreeze };
            self.stop(at.client, lasts, stop);
            self.breaks(stop);
            let fault = *self.dice.pick(&[Fault::Flush, Fault::Resync]);
            self.ambushed(fault, at.node);
        }
    }
}
