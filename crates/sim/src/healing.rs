//! The calm phase, after the faults have stopped: every client gets its locks, and soon.

use quorumlock_core::Guard;
use quorumlock_protocol::Name;

use super::invariants::{liveness, wake};
use super::plan::HEALING_ROUNDS;
use super::time::{MS, Micros, duration};
use super::workload::WorkTask;

impl WorkTask {
    /// Runs until this task has had its locks. Waits for `recovered` first, the time by which the
    /// effects of the faults have expired.
    pub async fn healing_phase(&mut self, recovered: Micros) {
        let strict = self.world.with(|state| state.plan.cluster.is_some());
        // Clients admit nodes only while they use them, so the task keeps using them.
        while strict && self.world.with(|state| state.now) + self.lease < recovered {
            let name = self.name();
            drop(self.locker.try_lock(&name).await);
            tokio::time::sleep(duration(self.dice.within(self.lease / 4, self.lease))).await;
        }
        let now = self.world.with(|state| state.now);
        let wait = recovered.saturating_sub(now) + self.dice.within(0, 20 * MS);
        tokio::time::sleep(duration(wait)).await;
        let mut again = None;
        for round in 1..=HEALING_ROUNDS {
            let name = again.take().unwrap_or_else(|| self.name());
            let Some((guard, attempt)) = self.hold_in_healing(&name).await else { return };
            // Some tasks take the same name again at once.
            again = (round < HEALING_ROUNDS && self.dice.chance(0.3)).then_some(name);
            self.release(guard, attempt).await;
        }
    }

    async fn hold_in_healing(&mut self, name: &str) -> Option<(Guard, usize)> {
        let lock = self.locker.lock(name);
        let name = Name::new(name).ok()?;
        let (client, task) = (self.client, self.task);
        let since = self.world.with(|state| state.waits(&name, client, task));
        let guard = match lock.await {
            Ok(guard) => guard,
            Err(error) => {
                self.world.with(|state| state.unexpected(client, &error));
                return None;
            }
        };
        self.world.with(|state| {
            let waited = state.now - since;
            liveness::check(state, client, waited);
            let free = state.got(&name, client, task);
            if let (Some(free), Some(attempt)) = (free, state.ledger.number(guard.nonce())) {
                wake::check(state, attempt, free);
            }
        });
        let attempt = self.granted(&guard);
        let hold = self.dice.within(0, 20 * MS);
        tokio::time::sleep(duration(hold)).await;
        Some((guard, attempt))
    }
}
