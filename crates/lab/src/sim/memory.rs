//! How nodes forget: crashes, promotions, flushes, resynchronisations, backups; and what admission
//! makes of it.

use quorumlock_core::{Nonce, quorum_of};

use super::ask::{Ask, Filed, Office, Reply};
use super::faults::{Assumption, Fault};
use super::link::LinkId;
use super::nemesis::Ending;
use super::process::LANES;
use super::sometimes::Sometimes;
use super::store::Store;
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::world::{Event, State};

impl State {
    /// On the operator's word, before anything is asked.
    pub(super) fn provision(&mut self) {
        let Some(charter) = self.plan.charter.clone().filter(|_| !self.plan.blank) else { return };
        for node in 0..self.plan.nodes {
            let stamp = self.fresh_stamp();
            let server = &mut self.servers[node];
            let life = server.life.id();
            server.store.provision((&stamp, true), &charter, &life, 0);
        }
    }

    pub(super) fn fresh_stamp(&mut self) -> String {
        let (a, b) = (self.dice.next(), self.dice.next());
        Nonce::from_u128(u128::from(a) << 64 | u128::from(b)).to_string()
    }

    pub(super) fn crash(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
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

    /// Every connection to it; the kernel says so, or nobody does (power loss).
    fn break_all(&mut self, node: usize) {
        for client in 0..self.processes.len() {
            if self.processes[client].dead {
                continue;
            }
            self.deafen(client, node);
            for lane in LANES {
                if self.dice.chance(0.7) {
                    self.break_link(LinkId { client, node, lane });
                }
            }
        }
    }

    /// A new process takes the place of the one that crashed.
    pub(super) fn restart(&mut self, node: usize) {
        let now = self.now;
        let server = &mut self.servers[node];
        if std::mem::take(&mut server.run.down) {
            server.life.restart(server.clock.micros(now));
        }
    }

    pub(super) fn forget(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        let now = self.now;
        // With admission a forgetful node is out for a while: it may get the time to come back.
        if self.plan.charter.is_some() && now < self.forgot_at + self.plan.mends {
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
                // Another process, which has been up for days; a proxy may keep the connections.
                server.life.restart(server.clock.micros(now).saturating_sub(20 * 3_600 * SECOND));
                if self.dice.chance(0.5) {
                    self.servers[node].run.number += 1;
                    self.break_all(node);
                }
                self.lose(fault, node);
                true
            }
            Fault::Resync => {
                self.servers[node].life.resync();
                self.lose(fault, node)
            }
            _ => self.lose(fault, node),
        }
    }

    /// A node forgets all, at the moment that matters.
    pub(super) fn ambushed(&mut self, fault: Fault, node: usize) {
        self.note(super::faults::fault_name(fault), Who::node(node), 0);
        if fault == Fault::Resync {
            self.servers[node].life.resync();
        }
        self.lose(fault, node);
        self.breaks(fault);
    }

    pub(super) fn evict(&mut self, fault: Fault, node: usize) -> bool {
        let names: Vec<_> = self.bench.names().cloned().collect();
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

    pub(super) fn force_unlock(&mut self) -> bool {
        let names: Vec<_> = self.bench.names().cloned().collect();
        let wire = self.plan.wire;
        for name in &names {
            for node in 0..self.plan.nodes {
                let server = &mut self.servers[node];
                let time = server.clock.micros(self.now);
                if server.store.force_release(name, time)
                    && let Some(woken) = server.wake(name, wire, time)
                {
                    self.publish(node, woken);
                }
            }
        }
        !names.is_empty()
    }

    /// One of admission's scripts was executed; `was`: the node was admitted before.
    pub(super) fn office_done(&mut self, at: LinkId, ask: &Ask, reply: &Reply, was: bool) {
        let (Ask::Office(office), Reply::Filed(filed)) = (ask, reply) else { return };
        match (office, filed) {
            (Office::Examine, _) => self.processes[at.client].helpers.clear(),
            (Office::Barrier(_), _) if was => {
                self.processes[at.client].helpers.insert(at.node);
            }
            (Office::Admit { .. }, Filed::Number(1)) => {
                let mut helpers = std::mem::take(&mut self.processes[at.client].helpers);
                helpers.remove(&at.node);
                if helpers.len() >= quorum_of(self.plan.nodes) {
                    self.see(Sometimes::Repaired);
                } else {
                    // The order of tokens rests on the clocks from now on.
                    self.see(Sometimes::ColdStart);
                    self.note("cold start", Who::both(at.client, at.node), helpers.len() as u64);
                    self.broken.insert(Assumption::Marks);
                }
            }
            _ => {}
        }
    }
}
