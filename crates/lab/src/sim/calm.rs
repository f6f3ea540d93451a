//! What the clients want once the faults have stopped: everybody gets the lock, and soon.

use quorumlock_core::{Guard, Lock, Name};

use super::invariants::{liveness, wake};
use super::time::{MS, Micros, duration};
use super::work::Hand;

/// How often each hand takes a lock.
pub(super) const CALM_ROUNDS: usize = 2;

impl Hand {
    /// Until each hand has had its locks.
    pub(super) async fn calm(&mut self, recovered: Micros) {
        let strict = self.world.with(|state| state.plan.charter.is_some());
        // Nobody watches over nodes that nobody asks for anything.
        while strict && self.world.with(|state| state.now) + self.lease < recovered {
            let name = self.name();
            drop(self.locker.try_lock(&name).await);
            tokio::time::sleep(duration(self.dice.within(self.lease / 4, self.lease))).await;
        }
        let now = self.world.with(|state| state.now);
        let wait = recovered.saturating_sub(now) + self.dice.within(0, 20 * MS);
        tokio::time::sleep(duration(wait)).await;
        let mut bumped = None;
        for round in 1..=CALM_ROUNDS {
            let (name, lock) = match bumped.take() {
                Some(again) => again,
                None => {
                    let name = self.name();
                    let lock = self.locker.lock(&name);
                    (name, lock)
                }
            };
            let Some((guard, attempt)) = self.hold_calmly(&name, lock).await else { return };
            if round < CALM_ROUNDS && self.dice.chance(0.3) {
                self.lets_go(attempt);
                bumped = Some((name, guard.bump()));
            } else {
                self.give_back(guard, attempt).await;
            }
        }
    }

    async fn hold_calmly(&mut self, name: &str, lock: Lock) -> Option<(Guard, usize)> {
        let name = Name::new(name).ok()?;
        let (client, hand) = (self.client, self.hand);
        let since = self.world.with(|state| state.waits(&name, client, hand));
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
            let free = state.got(&name, client, hand);
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
