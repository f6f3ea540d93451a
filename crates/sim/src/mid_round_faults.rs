//! Mid-round faults. One node, the victim, has granted a client's nonce, and the other nodes have
//! not answered yet. Then the victim forgets and is repaired, and other clients acquire meanwhile.
//!
//! Either the client's machine freezes, with its clock, before the client hears of the grant:
//! tokens must be right without any help of time (PROTOCOL.md MARK1). Or the client
//! stops after it has heard of the grant: until that lease is over, no other client may believe in
//! the victim.

use quorumlock_protocol::{Nonce, quorum_of};

use super::faults::Fault;
use super::request::SimRequest;
use super::server::Server;
use super::time::{MS, SECOND};
use super::withheld_votes::WithheldVotes;
use super::world::State;

impl State {
    /// Called when a client is about to send an acquisition to a node: prepares the mid-round
    /// fault.
    pub fn plan_withheld_votes(
        &mut self,
        (client, node): (usize, usize),
        request: &SimRequest,
        up: bool,
    ) {
        let SimRequest::Acquire(lease) = request else { return };
        if !self.plan.mid_round_faults || self.healed || self.processes[client].stopped {
            return;
        }
        let fresh = !lease.claim.names().any(|name| self.ledger.tokens.contains_key(name));
        if self.withheld_votes.is_none_or(|last| last.over < self.now) && node == 0 && fresh {
            let whole = self.servers.iter().all(Server::admitted);
            if up && whole && self.dice.chance(0.5) {
                let (victim, dials) = (self.dice.index(self.plan.nodes), self.dice.chance(0.5));
                let after_grant = self.dice.chance(0.3);
                let quarantine = self.plan.quarantine() * 11 / 10;
                let lasts = quarantine + self.dice.spread(500 * MS, 3 * SECOND);
                let nonce = lease.nonce;
                let over = self.now + 2 * lasts;
                self.withheld_votes = Some(WithheldVotes {
                    nonce,
                    victim,
                    dials,
                    after_grant,
                    lasts,
                    over,
                    triggered: false,
                });
            }
        }
        let Some(planned) = self.withheld_votes.filter(|a| a.nonce == lease.nonce && !a.triggered)
        else {
            return;
        };
        let size = self.plan.nodes;
        let rank = (node + size - planned.victim) % size;
        let slot = self.processes[client].slot;
        if rank == 0 {
            return;
        }
        if rank >= quorum_of(size) {
            // This node is not needed for the client's majority; with the victim it makes a
            // majority for the other clients.
            self.cuts[slot][node].0 = self.now + planned.lasts + 3 * SECOND;
        } else if planned.dials && up {
            for conn in self.conns_of(client, node) {
                self.reset(conn);
            }
        } else {
            // Requests on their way arrive when the cut is over.
            self.cuts[slot][node].0 = self.now + planned.lasts;
        }
    }

    /// Called when a node has executed an acquisition (`heard` is false), or when its client has
    /// heard of it (`heard` is true): carries out the mid-round fault.
    pub fn trigger_withheld_votes(
        &mut self,
        (client, node): (usize, usize),
        nonce: Nonce,
        granted: bool,
        heard: bool,
    ) {
        let Some(planned) = &mut self.withheld_votes else { return };
        let ours = planned.nonce == nonce && planned.victim == node && !planned.triggered;
        if !ours || planned.after_grant != heard {
            return;
        }
        planned.triggered = true;
        let lasts = planned.lasts;
        if granted && !self.healed && !self.processes[client].stopped {
            let stop = if heard { Fault::ClientPause } else { Fault::ClientFreeze };
            self.stop(client, lasts, stop);
            self.breaks(stop);
            let fault = *self.dice.pick(&[Fault::Flush, Fault::Resync]);
            self.forget_mid_round(fault, node);
        }
    }
}
