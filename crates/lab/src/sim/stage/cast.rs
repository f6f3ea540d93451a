//! The lockers of a play: each a client process of the simulation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_core::{Chance, ConfigError, Lessor, Locker, Single, World as Given};
use quorumlock_quorum::Quorum;
use tokio::sync::Notify;

use super::Play;
use super::hand::{Hand, Shared};
use super::record::Record;
use super::register::Register;
use crate::dice::Dice;
use crate::history::{Event, Op, Phase};
use crate::sim::node::SimNode;
use crate::sim::process::{Process, spawn};
use crate::sim::world::World;

/// All lockers, by their names.
pub(super) struct Cast {
    world: World,
    record: Arc<Record>,
    register: Arc<Register>,
    /// With the place in the world.
    lockers: BTreeMap<String, (usize, Arc<Shared>)>,
}

impl Cast {
    pub(super) fn of(
        play: &Play<'_>,
        world: &World,
        record: &Arc<Record>,
    ) -> Result<Self, ConfigError> {
        let register = Arc::new(Register::new(play.plan.fenced, Arc::clone(record)));
        let mut lockers = BTreeMap::new();
        for (place, client) in play.plan.clients.iter().enumerate() {
            world.with(|state| {
                let process = Process::new(state, place);
                state.processes.push(process);
                if client.work.connected {
                    state.connect(place);
                }
                if let Some(reaches) = &client.reaches {
                    for node in (0..play.plan.servers.voters).filter(|n| !reaches.contains(n)) {
                        state.cuts[place][node] = (u64::MAX / 4, u64::MAX / 4);
                    }
                }
            });
            let shared = Shared {
                client: client.clone(),
                name: play.plan.locking.name.clone(),
                locker: locker(world, place)?,
                record: Arc::clone(record),
                register: Arc::clone(&register),
                attempts: AtomicU64::new(0),
                left: AtomicU64::new(client.work.contenders as u64),
                ending: AtomicBool::new(false),
                ends: Notify::new(),
            };
            lockers.insert(client.id.clone(), (place, Arc::new(shared)));
        }
        Ok(Self { world: world.clone(), record: Arc::clone(record), register, lockers })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lockers.keys().cloned().collect()
    }

    /// What the lock guards.
    pub(super) fn register(&self) -> &Register {
        &self.register
    }

    pub(super) fn place(&self, client: &str) -> Option<usize> {
        self.lockers.get(client).map(|(place, _)| *place)
    }

    pub(super) fn start(&self, client: &str) {
        let Some((place, shared)) = self.lockers.get(client) else { return };
        for task in 0..shared.client.work.contenders {
            let dice = Dice::new(shared.client.work.seed, task as u64);
            let hand = Hand { shared: Arc::clone(shared), dice };
            spawn(&self.world, *place, hand.work());
        }
    }

    pub(super) fn end(&self, client: &str) {
        if let Some((_, shared)) = self.lockers.get(client) {
            shared.end();
        }
    }

    /// Kills it, and tells for it what it cannot tell any more.
    pub(super) fn kill(&self, client: &str) {
        let doing = self.record.of(client);
        let Some((place, _)) = self.lockers.get(client).filter(|_| !doing.killed) else { return };
        self.world.with(|state| state.kill(*place));
        let last = |op, phase, hold| Event {
            hold,
            what: Some("killed".to_owned()),
            ..self.record.event(client, op, phase)
        };
        self.record.tell(last(Op::Note, Phase::Info, None));
        for hold in doing.asking {
            self.record.tell(last(Op::Lock, Phase::Unknown, Some(hold)));
        }
        for hold in doing.holding {
            self.record.tell(last(Op::Lost, Phase::Fail, Some(hold)));
        }
    }
}

/// The real one, over simulated nodes.
fn locker(world: &World, place: usize) -> Result<Locker, ConfigError> {
    let (plan, clock) =
        world.with(|state| (state.plan.clone(), state.processes[place].clock.clock()));
    let mut nodes: Vec<_> =
        (0..plan.nodes).map(|node| SimNode::new(world.clone(), place, node)).collect();
    let settings = plan.settings();
    let within = settings.answer_timeout;
    let dice = Mutex::new(Dice::new(plan.seed, 1_000 + place as u64));
    let chance = Chance::given(move || dice.lock().unwrap_or_else(PoisonError::into_inner).next());
    let lessor: Arc<dyn Lessor> = match (plan.charter.clone(), nodes.len()) {
        (None, 1) => Arc::new(Single::new(nodes.remove(0), clock.clone(), within)),
        (None, _) => Arc::new(Quorum::new(nodes, clock.clone(), within)?),
        (Some(charter), _) => {
            let (clock, chance) = (clock.clone(), chance.clone());
            Arc::new(Quorum::strict(nodes, clock, chance, within, plan.rho, charter)?)
        }
    };
    let given = Given { clock, chance, keeper_on_this_runtime: true };
    Locker::over(lessor, settings, given)
}
