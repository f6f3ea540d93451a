//! Carries out a schedule of faults in the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::cast::Cast;
use super::record::Record;
use quorumlock_core::Name;

use crate::history::{Event, Op, Phase};
use crate::mode::Mode;
use crate::scenario::{Beginning, Fault, Plan, Step, WayState, When};
use crate::sim::faults::Fault as Kind;
use crate::sim::link::{LinkId, Phase as LinkPhase};
use crate::sim::process::LANES;
use crate::sim::store::Store;
use crate::sim::time::{Micros, SECOND};
use crate::sim::world::{State, World};
use crate::trial::TrialError;
use crate::trial::recorder::{Counts, Live};

/// As on real servers.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const END_WITHIN: Duration = Duration::from_secs(3);
/// Until somebody ends it.
const FOR_EVER: Micros = 1_000_000 * SECOND;

/// What the simulation cannot do of a plan; `None` if it can do all.
pub(crate) fn lacks(mode: Mode, plan: &Plan) -> Option<String> {
    if mode.replicas() > 0 {
        return Some("the simulation has no replicas".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.breach.is_some()) {
        return Some("the simulation has no broken locks".to_owned());
    }
    if plan.clients.iter().any(|client| client.told.is_some() || client.max_lease_ms.is_some()) {
        return Some("the simulation tells all lockers the same".to_owned());
    }
    if plan.servers.spares > 0 || !plan.servers.args.is_empty() {
        return Some("the simulation has no servers with settings of their own".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.beginning != Beginning::Claims) {
        return Some("the simulation's resource is not read".to_owned());
    }
    let unable = plan.schedule.iter().find(|step| match &step.fault {
        Fault::Command { words, .. } => !is_known(words, &plan.locking.name),
        // What only one direction loses or holds, its ways do not do as ours do.
        Fault::Way { state, .. } => !matches!(state, WayState::Open | WayState::Cut),
        Fault::CutTail { .. }
        | Fault::Promote(_)
        | Fault::Evict(_)
        | Fault::Busy { .. }
        | Fault::ForceUnlock
        | Fault::ReplicaOf { .. }
        | Fault::Lead { .. }
        | Fault::Switch { .. }
        | Fault::Replication { .. } => true,
        _ => false,
    });
    unable.map(|step| format!("the simulation cannot do this: {}", step.fault))
}

/// The first two leave nothing behind: nobody has written to another database. The last one looks,
/// by which what has expired is forgotten.
fn is_known(words: &[String], name: &str) -> bool {
    let words = words.join(" ");
    ["FLUSHALL", "SWAPDB 0 1"].contains(&&*words) || words == format!("EXISTS {name}")
}

/// Who does what a schedule says.
pub(super) struct Theatre<'a> {
    plan: &'a Plan,
    world: World,
    record: Arc<Record>,
    cast: Cast,
    began_ns: u64,
    /// By how much each node's clock has been set.
    set_ms: BTreeMap<usize, i64>,
    frozen: BTreeSet<String>,
}

impl<'a> Theatre<'a> {
    pub(super) fn new(plan: &'a Plan, world: World, record: Arc<Record>, cast: Cast) -> Self {
        let began_ns = record.now_ns();
        let (set_ms, frozen) = (BTreeMap::new(), BTreeSet::new());
        Self { plan, world, record, cast, began_ns, set_ms, frozen }
    }

    /// All steps, in order, and what comes after them.
    pub(super) async fn play(&mut self) -> Result<(), TrialError> {
        for client in self.plan.clients.iter().filter(|client| client.starts) {
            self.cast.start(&client.id);
        }
        let mut lasting = BTreeSet::new();
        let mut before = BTreeMap::new();
        for (number, step) in self.plan.schedule.iter().enumerate() {
            self.wait(number + 1, step, &before).await?;
            before = self.record.counts();
            self.carry_out(&step.fault, &mut lasting);
        }
        let least = Duration::from_millis(self.plan.least_ms).saturating_sub(self.over());
        tokio::time::sleep(least.max(Duration::from_millis(self.plan.tail_ms))).await;
        Ok(())
    }

    /// Ends all lockers: as they wish if they can, and by force otherwise.
    pub(super) async fn end(&mut self) {
        let names = self.cast.names();
        names.iter().for_each(|client| self.cast.end(client));
        let all = |live: &Live| names.iter().all(|c| live.of(c).done || live.of(c).killed);
        let _ = tokio::time::timeout(END_WITHIN, self.record.until(all)).await;
        for client in names.iter().filter(|client| !self.record.of(client).done) {
            self.cast.kill(client);
        }
    }

    fn over(&self) -> Duration {
        Duration::from_nanos(self.record.now_ns() - self.began_ns)
    }

    async fn wait(
        &self,
        number: usize,
        step: &Step,
        before: &BTreeMap<String, Counts>,
    ) -> Result<(), TrialError> {
        let so = |live: &Live| live.shows(&step.when, before);
        match &step.when {
            When::AtMs(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms).saturating_sub(self.over())).await;
            }
            When::AfterMs(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            when => {
                let patience = PATIENCE + Duration::from_millis(3 * self.plan.locking.max_lease_ms);
                let so = async {
                    while !self.sees(when) {
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                    self.record.until(so).await;
                };
                if tokio::time::timeout(patience, so).await.is_err() {
                    return Err(TrialError::Stuck {
                        step: number,
                        fault: step.fault.to_string(),
                        awaited: format!("{:?}", step.when),
                        patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
                    });
                }
            }
        }
        Ok(())
    }

    /// What nobody tells.
    fn sees(&self, when: &When) -> bool {
        match when {
            When::Has(node) => self.world.with(|state| holder(state, *node, self.name())),
            When::HeldUp(client) => self.cast.register().holds(client),
            _ => true,
        }
    }

    fn name(&self) -> &str {
        &self.plan.locking.name
    }

    fn carry_out(&mut self, fault: &Fault, lasting: &mut BTreeSet<(Option<usize>, String)>) {
        let node = fault.node();
        let tell = |theatre: &Self, phase, what: String| {
            let event = theatre.record.event("nemesis", Op::Fault, phase);
            theatre.record.tell(Event { node, what: Some(what), ..event });
        };
        let window = fault.window().filter(|_| fault.is_fault());
        if let Some((_, what)) = &window
            && !lasting.contains(&(node, what.clone()))
        {
            tell(self, Phase::Invoke, what.clone());
        }
        let restarts = matches!(fault, Fault::Restart(_) | Fault::RestartEmpty(_));
        if fault.is_fault() && (window.is_none() || restarts) {
            tell(self, Phase::Info, fault.to_string());
        }
        self.act(fault);
        match window {
            Some((true, what)) => {
                lasting.insert((node, what));
            }
            Some((false, what)) => {
                lasting.remove(&(node, what.clone()));
                tell(self, Phase::Ok, what);
            }
            None => {}
        }
    }

    fn act(&mut self, fault: &Fault) {
        let world = self.world.clone();
        let place = fault.client().and_then(|client| self.cast.place(client)).unwrap_or_default();
        let keeps = self.plan.servers.appendonly;
        match fault {
            Fault::ClientStart(client) => self.cast.start(client),
            Fault::ClientEnd(client) => self.cast.end(client),
            Fault::ClientKill(client) => self.cast.kill(client),
            Fault::ClientStop(_) | Fault::ClientSuspend(_) => {
                world.with(|state| state.stop(place, FOR_EVER, Kind::ClientPause));
            }
            Fault::ClientFreeze(client) => {
                self.frozen.insert(client.clone());
                world.with(|state| state.stop(place, FOR_EVER, Kind::ClientFreeze));
            }
            Fault::ClientCont(client) => {
                let counted = !self.frozen.remove(client);
                world.with(|state| state.wake(place, counted));
            }
            Fault::Clock { node, by_ms } => {
                let before = self.set_ms.insert(*node, *by_ms).unwrap_or_default();
                world.with(|state| {
                    let now = state.now;
                    state.servers[*node].clock.step(now, (by_ms - before) * 1_000);
                });
            }
            Fault::Writes { client, state } => {
                self.cast.register().set(client, *state == WayState::Open);
            }
            Fault::Command { node, words } if words[0] == "EXISTS" => {
                world.with(|state| {
                    holder(state, *node, self.name());
                });
            }
            Fault::Way { node, state: way, .. } => {
                world.with(|state| lay(state, place, *node, *way))
            }
            _ => world.with(|state| strike(state, fault, keeps)),
        }
    }
}

/// Whether a node has the lock's key; what has expired is gone by the look.
fn holder(state: &mut State, node: usize, name: &str) -> bool {
    let now = state.now;
    let (server, name) = (&mut state.servers[node], Name::new(name));
    let time = server.clock.micros(now);
    name.is_ok_and(|name| {
        server.store.touch(&name, time);
        server.store.held(&name, time).is_some()
    })
}

/// What a node suffers.
fn strike(state: &mut State, fault: &Fault, keeps: bool) {
    let now = state.now;
    match fault {
        Fault::Kill(node) => kill(state, *node, keeps),
        Fault::Restart(node) => {
            kill(state, *node, keeps);
            state.restart(*node);
        }
        Fault::RestartEmpty(node) => {
            kill(state, *node, false);
            state.servers[*node].store = Store::default();
            state.restart(*node);
        }
        Fault::Stop(node) => state.servers[*node].run.stopped = true,
        Fault::Cont(node) => state.go_on(*node),
        Fault::Disconnect(node) => lay_all(state, *node, WayState::Cut),
        Fault::Reconnect(node) => lay_all(state, *node, WayState::Open),
        Fault::FreezeClock(node) => state.servers[*node].clock.freeze(now, true),
        // Those that leave nothing behind.
        Fault::Command { node, .. } => state.servers[*node].store = Store::default(),
        _ => {}
    }
}

/// The kernel ends all connections of a process that dies.
fn kill(state: &mut State, node: usize, keeps: bool) {
    let kind = if keeps { Kind::CrashKeepingData } else { Kind::CrashLosingAll };
    state.crash(kind, node, FOR_EVER);
    for client in 0..state.processes.len() {
        hang_up(state, client, node);
    }
}

fn lay(state: &mut State, client: usize, node: usize, way: WayState) {
    let until = state.now + FOR_EVER;
    let cuts = match way {
        WayState::Cut => (until, until),
        WayState::HoldRequests | WayState::LoseRequests => (until, 0),
        WayState::HoldReplies | WayState::LoseReplies => (0, until),
        _ => (0, 0),
    };
    state.cuts[client][node] = cuts;
    if cuts == (0, 0) {
        // What was sent meanwhile is lost with its connection.
        hang_up(state, client, node);
    }
    state.deafen(client, node);
}

fn lay_all(state: &mut State, node: usize, way: WayState) {
    for client in 0..state.processes.len() {
        lay(state, client, node, way);
    }
}

fn hang_up(state: &mut State, client: usize, node: usize) {
    if !state.processes[client].dead {
        for lane in LANES {
            let link = LinkId { client, node, lane };
            if state.link(link).phase == LinkPhase::Dialing {
                // It would wait for as long as a dialer does, on a way that is open.
                state.link(link).connection += 1;
                state.dial(link);
            } else {
                state.break_link(link);
            }
        }
    }
}
