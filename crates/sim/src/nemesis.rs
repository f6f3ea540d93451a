//! Breaks nodes, connections and clients, and mends them again.

use super::arrival::Arrival;
use super::bug::Bug;
use super::event::{Ending, Event, Moment};
use super::faults::Fault;
use super::sometimes::Sometimes;
use super::start::start;
use super::time::{MS, Micros, SECOND};
use super::trace::Who;
use super::world::{Delivery, State};

impl State {
    /// Starts the clients and the faults.
    pub fn begin(&mut self) {
        self.provision();
        for slot in 0..self.plan.clients {
            self.busy += self.plan.tasks;
            self.spawn(slot);
        }
        self.next_fault();
        for (at, node) in self.plan.restarts.clone() {
            self.at(at, Event::Fault(Some(Moment::Restart(node))));
        }
        self.at(self.plan.heals, Event::End(Ending::Heal));
    }

    pub fn fault(&mut self, moment: Option<Moment>) {
        if self.healed {
            return;
        }
        if let Some(moment) = moment {
            return self.fault_at(&moment);
        }
        self.next_fault();
        let faults: Vec<_> =
            self.plan.faults.iter().copied().filter(|fault| *fault > Fault::LostMessage).collect();
        if faults.is_empty() {
            return;
        }
        let fault = *self.dice.pick(&faults);
        let node = self.dice.index(self.plan.nodes);
        let lasts = self.dice.spread(MS, 3 * self.plan.lease);
        self.note(super::faults::fault_name(fault), Who::node(node), lasts);
        let happened = match fault {
            Fault::Break | Fault::Cut | Fault::HalfOpen => self.break_path(fault, node, lasts),
            Fault::ClientPause | Fault::ClientKill | Fault::ClientFreeze => {
                self.break_client(fault, lasts)
            }
            Fault::ScriptFlush => self.flush_scripts(node),
            Fault::CrashKeepingData | Fault::Demotion => self.forget(fault, node, lasts),
            _ if Fault::FORGETFUL.contains(&fault) => self.forget(fault, node, lasts),
            Fault::EvictLock | Fault::EvictMark => self.evict(fault, node),
            Fault::ForceUnlock => self.force_unlock(),
            _ => self.break_clock(fault, node, lasts),
        };
        if happened {
            self.breaks(fault);
        }
    }

    pub fn breaks(&mut self, fault: Fault) {
        let strict = self.plan.cluster.is_some();
        self.broken.extend(fault.breaks(strict).iter().copied());
    }

    fn fault_at(&mut self, moment: &Moment) {
        match moment {
            Moment::Sent(client) => {
                let process = &self.processes[*client];
                if !process.dead && !process.stopped {
                    let lasts = self.dice.spread(MS, 3 * self.plan.lease);
                    self.stop(*client, lasts, Fault::ClientPause);
                }
            }
            Moment::Restart(node) => self.restart_empty(*node),
            Moment::Identified(node) => self.exchange_identified(*node),
            Moment::Raising(node, names) => {
                for name in names {
                    self.note(super::faults::fault_name(Fault::EvictLock), Who::node(*node), 0);
                    if self.servers[*node].store.drop_lock(name) {
                        self.breaks(Fault::EvictLock);
                    }
                }
            }
        }
    }

    pub fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Restart(node) => self.restart(node),
            Ending::GoOn(node) => self.go_on(node),
            Ending::Thaw(node) => self.servers[node].clock.freeze(self.now, false),
            Ending::Slew(node) => {
                let drift = self.plan.node_drift(&mut self.dice);
                self.servers[node].slew(self.now, drift);
            }
            Ending::Demotion(node) => self.promote(node),
            Ending::Wake(client, counted) => self.wake(client, counted),
            Ending::Hear(client) => self.hear(client),
            Ending::Spawn(slot) => {
                if !self.processes.iter().any(|process| process.slot == slot && !process.dead) {
                    self.spawn(slot);
                }
            }
            Ending::Heal => self.heal(),
        }
    }

    fn heal(&mut self) {
        self.note("healed", Who::default(), 0);
        self.healed = true;
        for node in 0..self.plan.nodes {
            self.end(Ending::Restart(node));
            self.end(Ending::GoOn(node));
            self.end(Ending::Thaw(node));
            self.end(Ending::Slew(node));
            self.end(Ending::Demotion(node));
        }
        for cuts in &mut self.cuts {
            cuts.fill((0, 0));
        }
        for client in 0..self.processes.len() {
            self.wake(client, true);
            self.drop_stale(client);
        }
        for slot in 0..self.plan.clients {
            self.end(Ending::Spawn(slot));
        }
    }

    fn next_fault(&mut self) {
        let wait = -(1.0 - self.dice.fraction()).ln() * self.plan.pace as f64;
        self.after(wait as Micros + MS, Event::Fault(None));
    }

    fn spawn(&mut self, slot: usize) {
        let client = self.add_process(slot);
        self.note("starts", Who::client(client), slot as u64);
        self.out.push(Delivery::Then(Box::new(move |world| start(world, client))));
    }

    fn break_path(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        let Some(client) = self.living() else { return false };
        let slot = self.processes[client].slot;
        // Messages that a cut delays arrive when it ends. No cut lasts beyond the start of the
        // healing phase.
        let until = (self.now + lasts).min(self.plan.heals.max(self.now));
        match fault {
            Fault::Break => {
                for conn in self.conns_of(client, node) {
                    // Subscriptions, too, in half of the cases.
                    if !self.subscribes(conn) || self.dice.chance(0.5) {
                        self.break_conn(conn);
                    }
                }
            }
            Fault::Cut => self.cuts[slot][node] = (until, until),
            _ if self.dice.chance(0.5) => self.cuts[slot][node].0 = until,
            _ => self.cuts[slot][node].1 = until,
        }
        true
    }

    fn break_client(&mut self, fault: Fault, lasts: Micros) -> bool {
        let Some(client) = self.living() else { return false };
        let holds = self.ledger.holders.iter().any(|holder| holder.client == client);
        if fault == Fault::ClientKill {
            if holds {
                self.see(Sometimes::KilledHolding);
            }
            self.kill(client);
            return true;
        }
        self.stop(client, lasts, fault);
        true
    }

    pub fn stop(&mut self, client: usize, lasts: Micros, fault: Fault) {
        let process = &mut self.processes[client];
        (process.stopped, process.hears) = (true, false);
        process.clock.stop();
        process.gate.shut();
        self.note("stops", Who::client(client), lasts);
        let counted = fault != Fault::ClientFreeze && self.bug != Some(Bug::ClockStopsInSuspend);
        self.after(lasts, Event::End(Ending::Wake(client, counted)));
    }

    pub fn wake(&mut self, client: usize, counted: bool) {
        let process = &mut self.processes[client];
        if process.dead || !process.stopped {
            return;
        }
        process.stopped = false;
        process.clock.go_on(counted);
        process.resumed_at = self.now;
        process.gate.open();
        let (now, waiting) = (process.now(), process.inbox.len());
        let answered = process.inbox.iter().any(|event| matches!(event, Event::Bytes(..)));
        self.note("goes on", Who::client(client), waiting as u64);
        if answered {
            self.see(Sometimes::AnswerAfterStop);
        }
        let ledger = &self.ledger;
        let past = |attempt: usize| ledger.attempts[attempt].until() < now;
        if ledger.holders.iter().any(|held| held.client == client && past(held.attempt)) {
            self.see(Sometimes::StoppedPastWindow);
        }
        // A resumed process may handle its events before or after its timers.
        let delay = if self.dice.chance(0.5) { 0 } else { self.dice.within(0, 3 * MS) };
        self.after(delay, Event::End(Ending::Hear(client)));
    }

    /// A resumed process handles what arrived meanwhile.
    fn hear(&mut self, client: usize) {
        let process = &mut self.processes[client];
        if process.dead || process.stopped {
            return;
        }
        process.hears = true;
        for event in std::mem::take(&mut process.inbox) {
            self.happen(event);
        }
    }

    pub fn kill(&mut self, client: usize) {
        self.note("killed", Who::client(client), 0);
        let wait = self.dice.spread(50 * MS, 2 * SECOND);
        self.end_process(client, wait);
    }

    /// The process is gone, with its connections. Another one follows in its slot after `wait`.
    pub fn end_process(&mut self, client: usize, wait: Micros) {
        let process = &mut self.processes[client];
        process.dead = true;
        process.gate.kill();
        let (slot, inbox) = (process.slot, std::mem::take(&mut process.inbox));
        inbox.into_iter().for_each(|event| self.unheard(event));
        self.end_beliefs_of(client);
        let (gone, stay) =
            self.ledger.holders.drain(..).partition::<Vec<_>, _>(|held| held.client == client);
        self.ledger.holders = stay;
        self.out.push(Delivery::Drop(gone));
        self.end_notes();
        if !self.plan.scripted {
            self.after(wait, Event::End(Ending::Spawn(slot)));
        }
    }

    fn break_clock(&mut self, fault: Fault, node: usize, lasts: Micros) -> bool {
        let now = self.now;
        let left = self.servers[node].back;
        let back = lasts.min(left);
        let slew = self.plan.node_drift(&mut self.dice);
        let most = (self.plan.max_clock_drift * 600_000.0) as i64;
        let server = &mut self.servers[node];
        match fault {
            Fault::NodePause => {
                server.run.stopped = true;
                self.after(lasts, Event::End(Ending::GoOn(node)));
            }
            Fault::ClockBack => {
                server.back -= back;
                server.clock.step(now, -(back as i64));
            }
            Fault::ClockForward => server.clock.step(now, lasts as i64),
            Fault::NodeFreeze => {
                server.clock.freeze(now, true);
                server.back -= back;
                // By then a clock at the fastest rate has counted `back`.
                let lasts = back * 1_000_000 / (1_000_000 + most as Micros);
                self.after(lasts, Event::End(Ending::Thaw(node)));
            }
            Fault::ClockRace => {
                server.clock.set_drift(now, most * 3 + 100_000);
                self.after(lasts, Event::End(Ending::Slew(node)));
            }
            // The fastest rate that A1 allows, or a slower one.
            _ if self.dice.chance(0.5) => server.slew(now, most),
            _ => server.slew(now, slew),
        }
        true
    }

    pub fn go_on(&mut self, node: usize) {
        let run = &mut self.servers[node].run;
        if !run.stopped {
            return;
        }
        let backlog = self.go_on_silently(node);
        if !backlog.is_empty() {
            self.see(Sometimes::BacklogExecuted);
        }
        for arrival in backlog {
            self.arrive(arrival);
        }
    }

    /// Resumes the node without handling the requests that arrived meanwhile, and returns them: a
    /// crash loses them.
    pub fn go_on_silently(&mut self, node: usize) -> Vec<Arrival> {
        let run = &mut self.servers[node].run;
        run.stopped = false;
        std::mem::take(&mut run.backlog)
    }

    fn living(&mut self) -> Option<usize> {
        let living = |at: &usize| !self.processes[*at].dead && !self.processes[*at].stopped;
        let living: Vec<_> = (0..self.processes.len()).filter(living).collect();
        (!living.is_empty()).then(|| *self.dice.pick(&living))
    }
}
