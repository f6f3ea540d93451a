use std::sync::Arc;

use quorumlock_protocol::waiting::TUNING;
use quorumlock_protocol::{Claim, FreeSlots, pick};

use super::inner::Inner;
use super::lease::Lease;
use super::local_queue::LocalPermit;
use super::lock_spec::LockSpec;

/// Which slot of permits a call asks for. Advice, never safety: each slot is a lock of its own
/// (PROTOCOL.md PER1, PER2).
pub(super) struct SlotChoice {
    inner: Arc<Inner>,
    claim: Claim,
    number: u16,
    /// The permit for this slot, unless another call of this process has it, or the caller of
    /// [`SlotChoice::new`].
    place: Option<LocalPermit<Lease>>,
    /// How many slots the attempt has asked for before this one.
    tries: u32,
    /// What the nodes have said since the last request.
    free: FreeSlots,
}

impl SlotChoice {
    /// The slot of the permit; or one that no call of this process asks for or holds, if there is one.
    pub(super) fn new(inner: &Arc<Inner>, spec: &LockSpec, permit: &LocalPermit<Lease>) -> Self {
        let claim = spec.claim.clone();
        let place = match permit.slot() {
            Some(_) => None,
            None => inner.local_queues.take_any_slot(&claim, inner.entropy.fraction()),
        };
        let any = || pick(claim.slots().unwrap_or(1).into(), inner.entropy.fraction());
        let number = permit.slot().or_else(|| place.as_ref().and_then(LocalPermit::slot));
        let number = number.unwrap_or_else(|| u16::try_from(any()).unwrap_or(0));
        Self { inner: inner.clone(), claim, number, place, tries: 0, free: FreeSlots::default() }
    }

    /// What the next attempt asks for.
    pub(super) fn claim(&self) -> Claim {
        // The number is that of one of the slots.
        self.claim.with_slot(self.number).unwrap_or_else(|| self.claim.clone())
    }

    /// An attempt begins. A node said that `told`, one of the slots, is free.
    pub(super) fn begin(&mut self, told: Option<u16>) {
        self.tries = 0;
        if let Some(slot) = told {
            self.place = self.inner.local_queues.take_slot(&self.claim, slot);
            self.number = slot;
        }
    }

    /// Whether the attempt has asked for no other slot yet.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 0
    }

    /// Where the nodes are to tell which slots are free, if they refuse the next request.
    pub(super) fn reports(&mut self) -> FreeSlots {
        self.free = FreeSlots::default();
        self.free.clone()
    }

    /// Chooses another slot after a refusal: one that the nodes said is free, or any other one if they
    /// did not say. False if there is none, or the attempt has asked often enough.
    pub(super) fn try_another(&mut self) -> bool {
        let (queues, share) = (&self.inner.local_queues, self.inner.entropy.fraction());
        if self.tries == TUNING.max_slot_tries {
            return false;
        }
        let other = match self.free.is_empty() {
            true => queues.take_any_slot(&self.claim, share),
            false => {
                let may_ask = |slot| slot != self.number && !queues.has_slot(&self.claim, slot);
                let free = self.free.best(share, may_ask);
                free.and_then(|slot| queues.take_slot(&self.claim, slot))
            }
        };
        let Some(place) = other else { return false };
        self.number = place.slot().unwrap_or(self.number);
        self.place = Some(place);
        self.tries += 1;
        true
    }

    /// The permit for the slot, if this call has it. `permit` is the one that it began with.
    pub(super) fn permit(self, permit: LocalPermit<Lease>) -> Option<LocalPermit<Lease>> {
        let number = Some(self.number);
        [self.place, Some(permit)].into_iter().flatten().find(|permit| permit.slot() == number)
    }
}
