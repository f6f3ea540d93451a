//! The lockers of a simulated run. Each is a client process of the simulation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_core::{Entropy, Environment as Given, Lessor, Locker, Single};
use quorumlock_protocol::ConfigError;
use quorumlock_quorum::{Quorum, proven};
use tokio::sync::Notify;

use super::client::SimClient;
use super::history::SimHistory;
use super::resource::SimResource;
use crate::history::{Event, Op, Phase};
use crate::scenario::Plan;
use crate::worker::broken_lock::Takes;
use crate::workload::tasks;
use quorumlock_sim::Dice;
use quorumlock_sim::node::SimNode;
use quorumlock_sim::start::spawn;
use quorumlock_sim::world::World;

/// All lockers, by name.
pub(super) struct SimClients {
    world: World,
    history: Arc<SimHistory>,
    register: Arc<SimResource>,
    /// With the index of its process in the world.
    lockers: BTreeMap<String, (usize, Arc<SimClient>)>,
}

impl SimClients {
    pub(super) fn of(
        plan: &Plan,
        world: &World,
        record: &Arc<SimHistory>,
    ) -> Result<Self, ConfigError> {
        let register = Arc::new(SimResource::new(plan.fenced, Arc::clone(record)));
        let mut lockers = BTreeMap::new();
        for (place, client) in plan.clients.iter().enumerate() {
            world.with(|state| {
                state.add_process(place);
                if let Some(reaches) = &client.reaches {
                    for node in (0..plan.servers.voters).filter(|n| !reaches.contains(n)) {
                        state.cuts[place][node] = (u64::MAX / 4, u64::MAX / 4);
                    }
                }
            });
            let nodes = SimNode::all(world, place)?;
            if client.work.connected {
                nodes.iter().for_each(SimNode::connect);
            }
            let shared = SimClient {
                client: client.clone(),
                name: plan.locking.name.clone(),
                permits: plan.locking.permits,
                takes: Takes::of(&plan.locking, &client.work),
                locker: locker(world, place, nodes)?,
                history: Arc::clone(record),
                register: Arc::clone(&register),
                left: AtomicU64::new(client.work.contenders as u64),
                ending: AtomicBool::new(false),
                ends: Notify::new(),
            };
            lockers.insert(client.id.clone(), (place, Arc::new(shared)));
        }
        Ok(Self { world: world.clone(), history: Arc::clone(record), register, lockers })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lockers.keys().cloned().collect()
    }

    /// The resource that the lock guards.
    pub(super) fn register(&self) -> &SimResource {
        &self.register
    }

    pub(super) fn process(&self, client: &str) -> Option<usize> {
        self.lockers.get(client).map(|(place, _)| *place)
    }

    pub(super) fn start(&self, client: &str) {
        let Some((place, shared)) = self.lockers.get(client) else { return };
        for task in tasks(shared) {
            spawn(&self.world, *place, Arc::clone(shared).run(task));
        }
    }

    pub(super) fn end(&self, client: &str) {
        if let Some((_, shared)) = self.lockers.get(client) {
            shared.end();
        }
    }

    /// Kills a client, and records on its behalf that its attempts and holds have ended.
    pub(super) fn kill(&self, client: &str) {
        let doing = self.history.of(client);
        let Some((place, _)) = self.lockers.get(client).filter(|_| !doing.killed) else { return };
        self.world.with(|state| state.kill(*place));
        let died = self.history.event(client, Op::Note, Phase::Info);
        let died = Event { what: Some("killed".to_owned()), ..died };
        self.history.record(died.clone());
        doing.cut_off(&died).for_each(|event| self.history.record(event));
    }
}

/// The library's locker, over the simulated network.
fn locker(world: &World, place: usize, mut nodes: Vec<SimNode>) -> Result<Locker, ConfigError> {
    let (plan, clock) =
        world.with(|state| (state.plan.clone(), state.processes[place].clock.clock()));
    let settings = plan.settings();
    let within = settings.answer_timeout;
    let dice = Mutex::new(Dice::new(plan.seed, 1_000 + place as u64));
    let entropy =
        Entropy::given(move || dice.lock().unwrap_or_else(PoisonError::into_inner).next_u64());
    let lessor: Arc<dyn Lessor> = match (plan.cluster.clone(), nodes.len()) {
        (Some(cluster), 1) => {
            let (node, clock, entropy) = (nodes.remove(0), clock.clone(), entropy.clone());
            Arc::new(proven(node, clock, entropy, within, plan.max_clock_drift, cluster))
        }
        (None, 1) => Arc::new(Single::new(nodes.remove(0), clock.clone(), within)),
        (None, _) => Arc::new(Quorum::new(nodes, clock.clone(), within)?),
        (Some(cluster), _) => {
            let (clock, entropy) = (clock.clone(), entropy.clone());
            Arc::new(Quorum::strict(nodes, clock, entropy, within, plan.max_clock_drift, cluster)?)
        }
    };
    let given = Given { clock, entropy, watchdog_on_this_runtime: true };
    Locker::with_lessor(lessor, settings, given)
}
