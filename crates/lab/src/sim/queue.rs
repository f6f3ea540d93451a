//! Who waits for names at a node: a model of `queue.lua`, `wake.lua` and `hand.lua`. All but the last is
//! advice, as there.

use std::collections::BTreeMap;

use quorumlock_core::{InLine, Name, Nonce, Offer, Wire};

use super::ask::millis;
use super::store::{Field, Held, Store};
use super::time::{MS, Micros};

/// The queue of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// In milliseconds of the node's clock.
    until: u64,
    waiting: BTreeMap<Place, Micros>,
    /// The mark of one that was woken and has not come yet.
    called: bool,
}

/// As what a client stands in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) client: usize,
    /// What it asked last, if the name may be handed over to that: for how many milliseconds, whether it gets
    /// tokens.
    offered: Option<(u128, u64, bool)>,
}

impl Place {
    pub(super) fn of(client: usize, offered: Option<(Nonce, Offer)>) -> Self {
        let offered = offered.map(|(nonce, Offer { claim, fencing })| {
            let bits = u128::from_str_radix(&nonce.to_string(), 16).unwrap_or_default();
            (bits, millis(claim), fencing)
        });
        Self { client, offered }
    }

    /// As what it stands after an attempt under `nonce`, and as what it stood before.
    pub(super) fn at(client: usize, nonce: Nonce, in_line: InLine) -> (Self, Self) {
        let as_of = |nonce| Self::of(client, in_line.offer.map(|offer| (nonce, offer)));
        let now = as_of(nonce);
        (now, in_line.before.map_or(now, as_of))
    }
}

impl Store {
    /// `stand.lua`.
    pub(super) fn stand(
        &mut self,
        name: &Name,
        place: Place,
        waited: Micros,
        keep_ms: u64,
        now: Micros,
    ) {
        self.forget_queue(name, now);
        let queue = self.queues.entry(name.clone()).or_default();
        queue.waiting.entry(place).or_insert_with(|| now.saturating_sub(waited));
        queue.until = queue.until.max(now / MS + keep_ms);
    }

    /// Whether a free name goes to others, who stand before these places of one client or were woken.
    pub(super) fn others_first(
        &mut self,
        name: &Name,
        (in_line, ours): (InLine, (Place, Place)),
        now: Micros,
    ) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get(name).filter(|_| in_line.others_first) else {
            return false;
        };
        let first = queue.waiting.iter().min_by_key(|(_, since)| **since).map(|(first, _)| *first);
        let others = queue.called || first.is_some_and(|first| first != ours.0 && first != ours.1);
        others && self.held(name, now).is_none()
    }

    /// Takes a client out of the queue; whether it was there.
    pub(super) fn leave(&mut self, name: &Name, place: Place, now: Micros) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let there = queue.waiting.remove(&place).is_some();
        self.forget_queue(name, now);
        there
    }

    /// Whoever has the lock waits no more.
    pub(super) fn served(&mut self, name: &Name, place: Place, now: Micros) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.called = false;
        }
        self.leave(name, place, now);
    }

    /// `hand.lua`: the token, if the name may be handed over to this one.
    pub(super) fn hand(
        &mut self,
        name: &Name,
        place: Place,
        wire: Wire,
        now: Micros,
    ) -> Option<(Nonce, u64)> {
        let (nonce, claim_ms, fencing) = place.offered?;
        let token = if fencing { self.next_block(name)? } else { 0 };
        let nonce = Nonce::from_u128(nonce);
        let by = Field { nonce, client: place.client as u64 };
        self.put_lock(name, Held { wire, by, holds: 1, until: now / MS + claim_ms });
        let _above_the_mark = self.accept(name, token);
        Some((nonce, token))
    }

    /// One was woken.
    pub(super) fn call(&mut self, name: &Name, now: Micros) {
        let queue = self.queues.entry(name.clone()).or_default();
        queue.called = true;
        if queue.waiting.is_empty() {
            queue.until = now / MS + 1_000;
        }
    }

    /// Takes the first one out of the queue.
    pub(super) fn next_in_line(&mut self, name: &Name, now: Micros) -> Option<Place> {
        self.forget_queue(name, now);
        let queue = self.queues.get_mut(name)?;
        queue.called = false;
        let first = queue.waiting.iter().min_by_key(|(_, since)| **since).map(|(first, _)| *first);
        if let Some(first) = first {
            queue.waiting.remove(&first);
        }
        self.forget_queue(name, now);
        first
    }

    /// How many wait for the name, and one more if one was woken.
    pub(super) fn waiting(&self, name: &Name, now: Micros) -> usize {
        let live = self.queues.get(name).filter(|queue| now / MS <= queue.until);
        live.map_or(0, |queue| queue.waiting.len() + usize::from(queue.called))
    }

    fn forget_queue(&mut self, name: &Name, now: Micros) {
        if self.waiting(name, now) == 0 {
            self.queues.remove(name);
        }
    }
}
