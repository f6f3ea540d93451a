//! Carries out a scenario's plan under simulated time: real lockers over simulated nodes, with the
//! schedule of the plan instead of drawn faults, recorded as a run on real servers is.
//!
//! The same seed gives the same history, byte for byte.

mod cast;
mod hand;
mod record;
mod register;
mod theatre;

use std::io;
use std::path::Path;
use std::sync::Arc;

use quorumlock_core::ConfigError;

use self::cast::Cast;
use self::record::Record;
use self::theatre::Theatre;
use super::mutants::Bug;
use super::plan::Plan;
use super::world::World;
use crate::mode::Mode;
use crate::scenario;
use crate::trial::TrialError;

pub(crate) use self::theatre::lacks;

/// What is to be played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play<'a> {
    pub(crate) run: &'a str,
    pub(crate) seed: u64,
    pub(crate) repetition: u64,
    pub(crate) mode: Mode,
    pub(crate) plan: &'a scenario::Plan,
    /// A planted bug: what the plan must then show.
    pub(crate) bug: Option<Bug>,
}

impl Play<'_> {
    /// Plays it on a runtime of its own, which has no clock but the simulated one. What gets stuck
    /// is [`TrialError::Stuck`].
    pub(crate) fn perform(&self, history: &Path) -> Result<(), TrialError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let mut recorded = Ok(());
        let played = runtime.block_on(async {
            let world = World::new(self.world(), self.bug, 0);
            let record = Record::create(history, self.run, self.seed, &world)?;
            let played = self.on(&world, &record).await;
            recorded = record.finish();
            world.close();
            played
        });
        drop(runtime);
        recorded.and(Ok(played?))
    }

    async fn on(&self, world: &World, record: &Arc<Record>) -> Result<(), TrialError> {
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
        let cast = Cast::of(self, world, record).map_err(refused)?;
        tokio::spawn(world.clone().run());
        let mut theatre = Theatre::new(self.plan, world.clone(), Arc::clone(record), cast);
        let played = theatre.play().await;
        theatre.end().await;
        played
    }

    /// Nodes, delays and clocks; nothing goes wrong by itself.
    fn world(&self) -> Plan {
        let locking = &self.plan.locking;
        let seed = self.seed ^ self.repetition.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Plan::staged(
            seed,
            (self.plan.servers.voters, self.plan.clients.len()),
            (locking.lease_ms, locking.max_lease_ms),
            self.mode.strict(),
        )
    }
}

/// For histories that cannot be written.
fn io_error(error: io::Error) -> TrialError {
    error.into()
}

#[cfg(test)]
mod tests;
