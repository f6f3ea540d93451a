//! How nodes forget: crashes, promotions, flushes, resynchronisations, backups; and how admission
//! repairs them.

use quorumlock_protocol::{Claim, Nonce};
use quorumlock_redis::simulation::force_release;

use super::event::{Ending, Event, Moment};
use super::faults::Fault;
use super::script::Script;
use super::sometimes::Sometimes;
use super::store::{MAX_LOST_TIME, Store};
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::workload::READ_WRITE;
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

    /// Ends every connection to the node. The kernel tells the clients, or nothing does (power
    /// loss).
    fn break_all(&mut self, node: usize) {
        let all = self.conns.values().map(|conn| conn.id).filter(|id| id.node == node);
        for id in all.collect::<Vec<_>>() {
            self.end_peer(id);
            if self.dice.chance(0.7) {
                self.break_conn(id);
            }
        }
    }

    /// A new server process replaces the crashed one.
    pub fn restart(&mut self, node: usize) {
        let now = self.now;
        let server = &mut self.servers[node];
        if std::mem::take(&mut server.run.down) {
            server.run_identity.restart(server.clock.micros(now));
            if !self.healed && !self.plan.scripted && self.dice.chance(0.3) {
                server.run.loading_until = now + self.dice.spread(MS, 500 * MS);
            }
        }
    }

    pub fn forget(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        if !self.may_forget() {
            return false;
        }
        match fault {
            Fault::CrashKeepingData
            | Fault::CrashLosingTail
            | Fault::CrashLosingAll
            | Fault::Restore => self.crash(fault, node, lasts),
            Fault::StalePromotion => {
                // A proxy may keep the connections.
                if self.dice.chance(0.5) {
                    self.servers[node].run.number += 1;
                    self.break_all(node);
                }
                self.exchange(node);
                true
            }
            Fault::Resync => {
                self.servers[node].run_identity.resync();
                self.lose(fault, node)
            }
            Fault::Demotion => self.demote(node, lasts),
            _ => self.lose(fault, node),
        }
    }

    /// With admission a node that forgot does not vote for a while: no other node forgets before
    /// `mends` has passed.
    fn may_forget(&mut self) -> bool {
        let since = self.forgot_at + self.plan.mends;
        let may = self.plan.cluster.is_none() || self.now >= since;
        if may {
            self.forgot_at = self.now;
        }
        may
    }

    /// A stale replica is promoted: another process, up for 20 hours.
    fn exchange(&mut self, node: usize) {
        let server = &mut self.servers[node];
        let time = server.clock.micros(self.now);
        server.run_identity.restart(time.saturating_sub(20 * 3_600 * SECOND));
        self.lose(Fault::StalePromotion, node);
    }

    /// A server has identified itself to a client. A proxy may exchange it before the client loads
    /// its scripts (PROTOCOL.md ADM6).
    pub fn identified(&mut self, node: usize) {
        let strict = self.plan.cluster.is_some();
        if strict && self.plan.faults.contains(&Fault::StalePromotion) && self.dice.chance(0.02) {
            self.after(0, Event::Fault(Some(Moment::Identified(node))));
        }
    }

    pub fn exchange_identified(&mut self, node: usize) {
        if self.may_forget() {
            self.note("exchanged in a handshake", Who::node(node), 0);
            self.see(Sometimes::ExchangedInHandshake);
            self.exchange(node);
            self.breaks(Fault::StalePromotion);
        }
    }

    fn demote(&mut self, node: usize, lasts: Micros) -> bool {
        let server = &mut self.servers[node];
        if server.run.down || server.run_identity.is_replica() {
            return false;
        }
        server.run_identity.demote();
        self.after(lasts, Event::End(Ending::Demotion(node)));
        true
    }

    pub fn promote(&mut self, node: usize) {
        let identity = &mut self.servers[node].run_identity;
        if identity.is_replica() {
            identity.promote();
        }
    }

    pub fn flush_scripts(&mut self, node: usize) -> bool {
        self.servers[node].run_identity.scripts.clear();
        true
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
        let most = if fault == Fault::Restore { MAX_LOST_TIME } else { 2 * SECOND };
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
        for name in &names {
            let (lock, read_write) = (name.clone().into(), Claim::write(name.clone()));
            let claims = match (name.as_str().starts_with(READ_WRITE), self.plan.kinds.mixed) {
                (true, _) => vec![read_write],
                (false, false) => vec![lock],
                (false, true) => vec![lock, read_write],
            };
            for node in 0..self.plan.nodes {
                claims.iter().for_each(|claim| self.force_release(node, claim));
            }
        }
        !names.is_empty()
    }

    /// An operator runs the script by hand.
    fn force_release(&mut self, node: usize, claim: &Claim) {
        let name = claim.name();
        let script = Script::of(&force_release(self.plan.layout, claim));
        let (channel, waiters) = (name.channel(), name.waiters_key());
        let keys = [name.as_str(), name.mark_key(), &channel, &waiters].map(str::as_bytes);
        let now = self.now;
        let (_, published) = self.servers[node].run_script(&script, (&keys, &[]), now);
        for message in published {
            self.publish(node, message);
        }
    }
}
