//! How nodes forget: crashes, promotions, flushes, resynchronisations, backups; and how admission
//! repairs them.

use quorumlock_protocol::{Nonce, quorum_of};

use super::event::{Ending, Event};
use super::faults::{Assumption, Fault};
use super::link::{LANES, LinkId};
use super::request::{AdmissionReply, AdmissionRequest, Reply, SimRequest};
use super::sometimes::Sometimes;
use super::store::Store;
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::world::State;

impl State {
    /// Admits all nodes, as an operator does, before the first request.
    pub fn provision(&mut self) {
        if self.plan.blank {
            return;
        }
        for node in 0..self.plan.nodes {
            let incarnation = self.fresh_incarnation();
            self.servers[node].provision(&incarnation, 0);
        }
    }

    pub fn fresh_incarnation(&mut self) -> String {
        let (a, b) = (self.dice.next_u64(), self.dice.next_u64());
        Nonce::from_u128(u128::from(a) << 64 | u128::from(b)).to_string()
    }

    pub fn crash(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        let time = self.servers[node].clock.micros(self.now);
        if self.servers[node].run.down {
            return false;
        }
        if self.servers[node].store.all_held(time).next().is_some() {
            self.see(Sometimes::CrashedHolding);
        }
        self.go_on_silently(node);
        let run = &mut self.servers[node].run;
        (run.number, run.down) = (run.number + 1, true);
        self.after(lasts, Event::End(Ending::Restart(node)));
        self.break_all(node);
        self.lose(fault, node)
    }

    /// Breaks every connection to the node. The kernel closes them, or nothing does (power loss).
    fn break_all(&mut self, node: usize) {
        for client in 0..self.processes.len() {
            if self.processes[client].dead {
                continue;
            }
            self.break_subscription(client, node);
            for lane in LANES {
                if self.dice.chance(0.7) {
                    self.break_link(LinkId { client, node, lane });
                }
            }
        }
    }

    /// A new server process replaces the crashed one.
    pub fn restart(&mut self, node: usize) {
        let now = self.now;
        let server = &mut self.servers[node];
        if std::mem::take(&mut server.run.down) {
            server.run_identity.restart(server.clock.micros(now));
        }
    }

    pub fn forget(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        let now = self.now;
        // With admission a node that forgot does not vote for a while: no other node forgets before
        // `mends` has passed.
        if self.plan.cluster.is_some() && now < self.forgot_at + self.plan.mends {
            return false;
        }
        self.forgot_at = now;
        match fault {
            Fault::CrashKeepingData
            | Fault::CrashLosingTail
            | Fault::CrashLosingAll
            | Fault::Restore => self.crash(fault, node, lasts),
            Fault::StalePromotion => {
                let server = &mut self.servers[node];
                // The promoted server is another process, up for 20 hours. A proxy may keep the
                // connections.
                server
                    .run_identity
                    .restart(server.clock.micros(now).saturating_sub(20 * 3_600 * SECOND));
                if self.dice.chance(0.5) {
                    self.servers[node].run.number += 1;
                    self.break_all(node);
                }
                self.lose(fault, node);
                true
            }
            Fault::Resync => {
                self.servers[node].run_identity.resync();
                self.lose(fault, node)
            }
            _ => self.lose(fault, node),
        }
    }

    /// A node forgets everything at a critical moment of a round.
    pub fn forget_mid_round(&mut self, fault: Fault, node: usize) {
        self.note(super::faults::fault_name(fault), Who::node(node), 0);
        if fault == Fault::Resync {
            self.servers[node].run_identity.resync();
        }
        self.lose(fault, node);
        self.breaks(fault);
    }

    pub fn evict(&mut self, fault: Fault, node: usize) -> bool {
        let names: Vec<_> = self.workload.names().cloned().collect();
        let Some(name) = (!names.is_empty()).then(|| self.dice.pick(&names).clone()) else {
            return false;
        };
        let store = &mut self.servers[node].store;
        match fault {
            Fault::EvictLock => store.drop_lock(&name),
            _ => store.drop_mark(&name),
        }
    }

    fn lose(&mut self, fault: Fault, node: usize) -> bool {
        let most = if fault == Fault::Restore { 20 * SECOND } else { 2 * SECOND };
        let since = self.now.saturating_sub(self.dice.spread(MS, most));
        let store = &mut self.servers[node].store;
        match fault {
            Fault::CrashLosingTail | Fault::StalePromotion | Fault::Restore => {
                store.lose_tail(since)
            }
            Fault::CrashLosingAll | Fault::Flush | Fault::Resync => {
                *store = Store::default();
                true
            }
            _ => false,
        }
    }

    pub fn force_unlock(&mut self) -> bool {
        let names: Vec<_> = self.workload.names().cloned().collect();
        let wire = self.plan.wire;
        for name in &names {
            for node in 0..self.plan.nodes {
                let server = &mut self.servers[node];
                let time = server.clock.micros(self.now);
                if server.store.force_release(name, time)
                    && let Some(notified) = server.notify_next(name, wire, time)
                {
                    self.publish(node, notified);
                }
            }
        }
        !names.is_empty()
    }

    /// Called after a node executed one of admission's scripts. `was`: the node was admitted
    /// before.
    pub fn admission_done(&mut self, at: LinkId, request: &SimRequest, reply: &Reply, was: bool) {
        let (SimRequest::Admission(admission), Reply::Admission(reply)) = (request, reply) else {
            return;
        };
        match (admission, reply) {
            (AdmissionRequest::NodeInfo, _) => self.processes[at.client].helpers.clear(),
            (AdmissionRequest::Barrier(_), _) if was => {
                self.processes[at.client].helpers.insert(at.node);
            }
            (AdmissionRequest::Admit(_), AdmissionReply::Number(1)) => {
                let mut helpers = std::mem::take(&mut self.processes[at.client].helpers);
                helpers.remove(&at.node);
                if helpers.len() >= quorum_of(self.plan.nodes) {
                    self.see(Sometimes::Repaired);
                } else {
                    // A cold start: from now on the order of tokens rests on the clocks.
                    self.see(Sometimes::ColdStart);
                    self.note("cold start", Who::both(at.client, at.node), helpers.len() as u64);
                    self.broken.insert(Assumption::Marks);
                }
            }
            _ => {}
        }
    }
}
