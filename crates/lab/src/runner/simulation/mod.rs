//! Carries out a scenario's plan in simulated time: real lockers over simulated nodes, with the
//! faults of the plan's schedule. The history has the same format as on real servers.
//!
//! The same seed gives the same history, byte for byte.

mod client;
mod clients;
mod history;
mod resource;
mod runner;

use std::path::Path;
use std::sync::Arc;

use quorumlock_protocol::ConfigError;

use self::clients::SimClients;
use self::history::SimHistory;
use self::runner::SimRunner;
use crate::mode::Mode;
use crate::runner::{TrialError, schedule};
use crate::scenario;
use quorumlock_sim::Bug;
use quorumlock_sim::plan::Plan;
use quorumlock_sim::time::MS;
use quorumlock_sim::world::World;

pub(crate) use self::runner::lacks;

/// A run in the simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimRun<'a> {
    pub(crate) run: &'a str,
    pub(crate) seed: u64,
    pub(crate) repetition: u64,
    pub(crate) mode: Mode,
    pub(crate) plan: &'a scenario::Plan,
    /// A deliberate bug, which the plan must reveal.
    pub(crate) bug: Option<Bug>,
}

impl SimRun<'_> {
    /// Carries out the run on a runtime of its own, whose only clock is the simulated one. A step
    /// that gets stuck gives [`TrialError::Stuck`].
    pub(crate) fn execute(&self, history: &Path) -> Result<(), TrialError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let mut recorded = Ok(());
        let carried_out = runtime.block_on(async {
            let world = World::new(self.world(), self.bug, 0);
            let record = SimHistory::create(history, self.run, self.seed, &world)?;
            let carried_out = self.on(&world, &record).await;
            recorded = record.finish();
            world.close();
            carried_out
        });
        drop(runtime);
        recorded.and(Ok(carried_out?))
    }

    async fn on(&self, world: &World, record: &Arc<SimHistory>) -> Result<(), TrialError> {
        world.with(|state| {
            state.provision();
            if let Some(ppm) = self.plan.servers.clock_gains_ppm {
                let now = state.now;
                for server in &mut state.servers {
                    server.clock.set_drift(now, ppm.into());
                }
            }
        });
        let refused = |error: ConfigError| TrialError::Plan(error.to_string());
        let clients = SimClients::of(self.plan, world, record).map_err(refused)?;
        tokio::spawn(world.clone().run());
        let mut runner = SimRunner::new(self.plan, world.clone(), Arc::clone(record), clients);
        let carried_out = schedule::carry_out(self.plan, &mut runner).await;
        runner.end().await;
        carried_out
    }

    /// The nodes, delays and clocks of the simulated world. It injects no faults by itself.
    fn world(&self) -> Plan {
        let locking = &self.plan.locking;
        let seed = self.seed ^ self.repetition.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Plan::scripted(
            seed,
            (self.plan.servers.voters, self.plan.clients.len()),
            (locking.lease_ms, locking.max_lease_ms),
            self.mode.strict(),
        )
        .with_takeover_delay(locking.takeover_delay_ms * MS)
    }
}

#[cfg(test)]
mod tests;
