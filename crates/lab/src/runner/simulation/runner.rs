//! Injects faults into the simulated world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::clients::SimClients;
use super::history::SimHistory;
use quorumlock_protocol::{Instant, Name};

use crate::history::{Event, Op, Phase};
use crate::mode::Mode;
use crate::runner::TrialError;
use crate::runner::recorder::{ClientStates, Counts};
use crate::runner::schedule::Target;
use crate::scenario::{Fault, FirstAccess, Plan, Ring, Waiting, WayState};
use crate::timestamp;
use quorumlock_sim::faults::Fault as Kind;
use quorumlock_sim::store::Store;
use quorumlock_sim::time::{Micros, SECOND};
use quorumlock_sim::world::{State, World};

/// The same as on real servers.
const END_WITHIN: Duration = Duration::from_secs(3);
/// Outages last this long unless a later step ends them.
const FOR_EVER: Micros = 1_000_000 * SECOND;

/// What the simulation cannot do of a plan, in words; `None` if it can do all.
pub(crate) fn lacks(mode: Mode, plan: &Plan) -> Option<String> {
    if mode == Mode::E {
        return Some("the simulation has no etcd".to_owned());
    }
    if mode.replicas() > 0 {
        return Some("the simulation has no replicas".to_owned());
    }
    if plan.locking.strict_order {
        return Some("the lab's clients in the simulation keep no strict order".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.broken_lock.is_some()) {
        return Some("the simulation has no broken locks".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.ring == Some(Ring::OneByOne)) {
        return Some("the simulation's clients take no names one by one".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.read_write.is_some()) {
        return Some("the lab's resource in the simulation knows no readers".to_owned());
    }
    if plan
        .clients
        .iter()
        .any(|client| client.configured_with.is_some() || client.max_lease_ms.is_some())
        || plan.clients.iter().any(|client| client.database > 0)
    {
        return Some("the simulation tells all lockers the same".to_owned());
    }
    if plan.clients.iter().any(|client| client.clock_by_ms != 0) {
        return Some("the lab sets no client's wall clock in the simulation".to_owned());
    }
    if plan.clients.iter().any(|client| client.work.waiting == Waiting::Once) {
        return Some("the lab starts no short-lived processes in the simulation".to_owned());
    }
    if plan.servers.spares > 0 || !plan.servers.args.is_empty() {
        return Some("the simulation has no servers with settings of their own".to_owned());
    }
    let reads = |access| matches!(access, FirstAccess::Reads | FirstAccess::ClaimsAndReads);
    if plan.clients.iter().any(|client| reads(client.work.first_access)) {
        return Some("the simulation's resource is not read".to_owned());
    }
    let unable = plan.schedule.iter().find(|step| match &step.fault {
        Fault::Command { words, .. } => !is_known(words, &plan.locking.name),
        // The simulation's ways treat only `Open` and `Cut` as the proxies do.
        Fault::Way { state, .. } => !matches!(state, WayState::Open | WayState::Cut),
        Fault::CutTail { .. }
        | Fault::Promote(_)
        | Fault::Evict(_)
        | Fault::Busy { .. }
        | Fault::ForceUnlock
        | Fault::Init(_)
        | Fault::ChangeMembers { .. }
        | Fault::ReplicaOf { .. }
        | Fault::Lead { .. }
        | Fault::Switch { .. }
        | Fault::Replication { .. } => true,
        _ => false,
    });
    unable.map(|step| format!("the simulation cannot do this: {}", step.fault))
}

/// The first two delete everything, as far as the lab can tell: no client writes to another
/// database. The last one makes the server delete the key if it has expired.
fn is_known(words: &[String], name: &str) -> bool {
    let words = words.join(" ");
    ["FLUSHALL", "SWAPDB 0 1"].contains(&&*words) || words == format!("EXISTS {name}")
}

/// The simulated nodes and the lockers of a run.
pub(super) struct SimRunner<'a> {
    plan: &'a Plan,
    world: World,
    history: Arc<SimHistory>,
    clients: SimClients,
    /// The current offset of each node's clock.
    set_ms: BTreeMap<usize, i64>,
    frozen: BTreeSet<String>,
}

impl<'a> SimRunner<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        world: World,
        record: Arc<SimHistory>,
        clients: SimClients,
    ) -> Self {
        let (set_ms, frozen) = (BTreeMap::new(), BTreeSet::new());
        Self { plan, world, history: record, clients, set_ms, frozen }
    }

    /// Ends all lockers: by an order if they can react, by force otherwise.
    pub(super) async fn end(&mut self) {
        let names = self.clients.names();
        names.iter().for_each(|client| self.clients.end(client));
        let all = |live: &ClientStates| names.iter().all(|c| live.of(c).done || live.of(c).killed);
        let _ = tokio::time::timeout(END_WITHIN, self.history.until(all)).await;
        for client in names.iter().filter(|client| !self.history.of(client).done) {
            self.clients.kill(client);
        }
    }

    fn name(&self) -> &str {
        &self.plan.locking.name
    }
}

impl Target for SimRunner<'_> {
    const POLL_EVERY: Duration = Duration::from_millis(1);

    fn now(&self) -> Instant {
        timestamp::instant(self.history.now_ns())
    }

    fn counts(&self) -> BTreeMap<String, Counts> {
        self.history.counts()
    }

    async fn until(&self, seen: impl Fn(&ClientStates) -> bool) {
        self.history.until(seen).await;
    }

    /// There are no replicas.
    async fn in_sync(&self, _: usize) -> Result<(), TrialError> {
        Ok(())
    }

    async fn has(&self, node: usize) -> Result<bool, TrialError> {
        Ok(self.world.with(|state| holder(state, node, self.name())))
    }

    fn held_up(&self, client: &str) -> Result<bool, TrialError> {
        Ok(self.clients.register().holds(client))
    }

    async fn record(&self, node: Option<usize>, phase: Phase, what: &str) {
        let event = self.history.event("nemesis", Op::Fault, phase);
        self.history.record(Event { node, what: Some(what.to_owned()), ..event });
    }

    async fn act(&mut self, fault: &Fault) -> Result<(), TrialError> {
        let world = self.world.clone();
        let place =
            fault.client().and_then(|client| self.clients.process(client)).unwrap_or_default();
        let keeps = self.plan.servers.appendonly;
        match fault {
            Fault::ClientStart(client) => self.clients.start(client),
            Fault::ClientEnd(client) => self.clients.end(client),
            Fault::ClientKill(client) => self.clients.kill(client),
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
                self.clients.register().set(client, *state == WayState::Open);
            }
            Fault::Command { node, words } if words[0] == "EXISTS" => {
                world.with(|state| {
                    holder(state, *node, self.name());
                });
            }
            Fault::Way { node, state: way, .. } => {
                world.with(|state| set_path(state, place, *node, *way))
            }
            _ => world.with(|state| inject(state, fault, keeps)),
        }
        Ok(())
    }
}

/// Whether a node has the lock's key. Deletes the key if it has expired.
fn holder(state: &mut State, node: usize, name: &str) -> bool {
    let now = state.now;
    let (server, name) = (&mut state.servers[node], Name::new(name));
    let time = server.clock.micros(now);
    name.is_ok_and(|name| {
        server.store.touch(&name, time);
        server.store.holders(&name, time).next().is_some()
    })
}

/// Applies a fault to a node.
fn inject(state: &mut State, fault: &Fault, keeps: bool) {
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
        Fault::Disconnect(node) => set_all_paths(state, *node, WayState::Cut),
        Fault::Reconnect(node) => set_all_paths(state, *node, WayState::Open),
        Fault::FreezeClock(node) => state.servers[*node].clock.freeze(now, true),
        // Only the commands that delete everything come here.
        Fault::Command { node, .. } => state.servers[*node].store = Store::default(),
        _ => {}
    }
}

/// Kills a node. The kernel of a dying process closes all its connections.
fn kill(state: &mut State, node: usize, keeps: bool) {
    let kind = if keeps { Kind::CrashKeepingData } else { Kind::CrashLosingAll };
    state.crash(kind, node, FOR_EVER);
    for client in 0..state.processes.len() {
        break_connections(state, client, node);
    }
}

fn set_path(state: &mut State, client: usize, node: usize, way: WayState) {
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
        break_connections(state, client, node);
    }
}

fn set_all_paths(state: &mut State, node: usize, way: WayState) {
    for client in 0..state.processes.len() {
        set_path(state, client, node, way);
    }
}

fn break_connections(state: &mut State, client: usize, node: usize) {
    if !state.processes[client].dead {
        state.break_connections(client, node);
    }
}
