//! The calm phase, after the faults have stopped: every client gets its locks, and soon.

use quorumlock_core::kind::{self, Kind};
use quorumlock_protocol::Claim;

use super::invariants::{liveness, wake};
use super::plan::HEALING_ROUNDS;
use super::time::{MS, Micros, duration};
use super::wanted::Wanted;
use super::workload::{READ_WRITE, WorkTask};

impl WorkTask {
    /// Runs until this task has had its locks. Waits for `recovered` first, the time by which the
    /// effects of the faults have expired.
    pub async fn healing_phase(&mut self, recovered: Micros) {
        let strict = self.world.with(|state| state.plan.cluster.is_some());
        // Clients admit nodes only while they use them, so the task keeps using them.
        while strict && self.world.with(|state| state.now) + self.lease < recovered {
            let name = self.name();
            drop(self.locker.try_lock::<kind::Lock>(Claim::lock([&name])).await);
            tokio::time::sleep(duration(self.dice.within(self.lease / 4, self.lease))).await;
        }
        let now = self.world.with(|state| state.now);
        let wait = recovered.saturating_sub(now) + self.dice.within(0, 20 * MS);
        tokio::time::sleep(duration(wait)).await;
        let mut again = None;
        for round in 1..=HEALING_ROUNDS {
            let wanted = again.take().unwrap_or_else(|| self.wanted());
            let wants_again = round < HEALING_ROUNDS;
            let Some(wants_again) = self.heal_once(&wanted, wants_again).await else { return };
            again = wants_again.then_some(wanted);
        }
    }

    /// What the task takes in the healing phase: of some names, a permit or a read-write lock.
    fn wanted(&mut self) -> Wanted {
        let name = self.name();
        if self.permits.as_mut().is_some_and(|dice| dice.chance(0.5)) {
            Wanted::Permit(name)
        } else if self.read_write.as_mut().is_some_and(|dice| dice.chance(0.5)) {
            let reads = self.read_write.as_mut().is_some_and(|dice| dice.chance(0.6));
            let name = format!("{READ_WRITE}{name}");
            if reads { Wanted::Read(name) } else { Wanted::Write(name) }
        } else {
            Wanted::Lock(name)
        }
    }

    /// Takes what is wanted, and releases it. Returns whether the task takes it again at once, as some
    /// tasks do if they `may`; `None` if it did not get it.
    async fn heal_once(&mut self, wanted: &Wanted, may: bool) -> Option<bool> {
        let claim = wanted.claim().ok()?;
        match wanted {
            Wanted::Lock(_) => self.hold_in_healing::<kind::Lock>(claim, may).await,
            Wanted::Permit(_) => self.hold_in_healing::<kind::Permit>(claim, may).await,
            Wanted::Read(_) => self.hold_in_healing::<kind::Read>(claim, may).await,
            Wanted::Write(_) => self.hold_in_healing::<kind::Write>(claim, may).await,
        }
    }

    async fn hold_in_healing<K: Kind>(&mut self, claim: Claim, may: bool) -> Option<bool> {
        let (client, task) = (self.client, self.task);
        let queue = match claim.slots() {
            Some(_) => claim.queue(),
            None => claim.name().clone(),
        };
        let since = self.world.with(|state| state.waits(&queue, client, task));
        let guard = match self.locker.lock::<K>(Ok(claim)).await {
            Ok(guard) => guard,
            Err(error) => {
                self.world.with(|state| state.unexpected(client, &error));
                return None;
            }
        };
        self.world.with(|state| {
            let waited = state.now - since;
            liveness::check(state, client, waited);
            let free = state.got(&queue, client, task);
            if let (Some(free), Some(attempt)) = (free, state.ledger.number(guard.nonce())) {
                wake::check(state, attempt, free);
            }
        });
        let attempt = self.granted(&guard);
        let hold = self.dice.within(0, 20 * MS);
        tokio::time::sleep(duration(hold)).await;
        let again = may && self.dice.chance(0.3);
        self.release(guard, attempt).await;
        Some(again)
    }
}
