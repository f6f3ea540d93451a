//! Starts a client process: the real locker over simulated nodes, and its tasks.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_core::{Entropy, Environment as Given, Lessor, Locker, Single};
use quorumlock_protocol::ConfigError;
use quorumlock_quorum::{Quorum, proven};
use quorumlock_watchdog::Clock;

use super::bug::Bug;
use super::node::SimNode;
use super::pause_gate::Gated;
use super::plan::{self, Plan};
use super::workload;
use super::world::World;
use crate::dice::Dice;

/// Starts the tasks of a process on the runtime of the world.
pub fn start(world: &World, client: usize) {
    let (plan, clock) = world.with(|state| {
        let process = &state.processes[client];
        (state.plan.clone(), process.clock.clone())
    });
    let nodes = match SimNode::all(world, client) {
        Ok(nodes) => nodes,
        Err(error) => return world.with(|state| state.unexpected(client, &error)),
    };
    let mut settings = plan.settings();
    if world.with(|state| state.bug) == Some(Bug::NoTakeoverDelay) {
        // The nodes still add it.
        settings.takeover_delay = Duration::ZERO;
    }
    let within = settings.answer_timeout;
    let dice = Mutex::new(Dice::new(plan.seed, 1_000 + client as u64));
    let chance =
        Entropy::given(move || dice.lock().unwrap_or_else(PoisonError::into_inner).next_u64());
    let given =
        Given { clock: clock.clock(), entropy: chance.clone(), watchdog_on_this_runtime: true };
    let lessor = match lessor(&plan, nodes, (clock.clock(), chance), within) {
        Ok(lessor) => lessor,
        Err(error) => return world.with(|state| state.unexpected(client, &error)),
    };
    match Locker::with_lessor(lessor, settings, given) {
        Ok(locker) => {
            for task in 0..plan.tasks {
                spawn(
                    world,
                    client,
                    workload::run_task(world.clone(), client, task, locker.clone()),
                );
            }
        }
        Err(error) => world.with(|state| state.unexpected(client, &error)),
    }
}

/// Spawns a task of a process. The task stops and ends with the process.
pub fn spawn(world: &World, client: usize, work: impl Future<Output = ()> + Send + 'static) {
    let gate = world.with(|state| state.processes[client].gate.clone());
    tokio::spawn(Gated::new(gate, work));
}

fn lessor(
    plan: &Plan,
    mut nodes: Vec<SimNode>,
    (clock, chance): (Clock, Entropy),
    within: Duration,
) -> Result<Arc<dyn Lessor>, ConfigError> {
    if plan::is_single(nodes.len(), plan.seed)
        && let Some(node) = nodes.pop()
    {
        return Ok(Arc::new(match plan.cluster.clone() {
            Some(cluster) => proven(node, clock, chance, within, plan.max_clock_drift, cluster),
            None => Single::new(node, clock, within),
        }));
    }
    Ok(match plan.cluster.clone() {
        Some(cluster) => {
            Arc::new(Quorum::strict(nodes, clock, chance, within, plan.max_clock_drift, cluster)?)
        }
        None => Arc::new(Quorum::new(nodes, clock, within)?),
    })
}
