//! The wait queues of a node: a model of `wait_queue.lua`, `notify_next.lua` and `handoff.lua`. As
//! in the scripts, all of it is advice, except a handoff.

use quorumlock_protocol::{EnqueueRequest, Name, Nonce, Wire};

use super::queue::QueueMember;
use super::store::{Field, Held, Store};
use super::time::{MS, Micros};

impl Store {
    /// `enqueue.lua`.
    pub fn enqueue(
        &mut self,
        name: &Name,
        place: QueueMember,
        waited: Micros,
        keep_ms: u64,
        now: Micros,
    ) {
        self.forget_queue(name, now);
        let queue = self.queues.entry(name.clone()).or_default();
        queue.waiting.entry(place).or_insert_with(|| now.saturating_sub(waited));
        queue.until = queue.until.max(now / MS + keep_ms);
    }

    /// Whether a free name goes to other waiters: one is queued before both members `ours` of this
    /// client, or was notified.
    pub fn must_yield(
        &mut self,
        name: &Name,
        (enqueue, ours): (EnqueueRequest, (QueueMember, QueueMember)),
        now: Micros,
    ) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get(name).filter(|_| enqueue.yield_to_notified) else {
            return false;
        };
        let first = queue.waiting.iter().min_by_key(|(_, since)| **since).map(|(first, _)| *first);
        let others =
            queue.notified || first.is_some_and(|first| first != ours.0 && first != ours.1);
        others && self.held(name, now).is_none()
    }

    /// Removes a member from the queue. Returns whether it was there.
    pub fn dequeue(&mut self, name: &Name, place: QueueMember, now: Micros) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let there = queue.waiting.remove(&place).is_some();
        self.forget_queue(name, now);
        there
    }

    /// The client of `place` has the lock and no longer waits.
    pub fn served(&mut self, name: &Name, place: QueueMember, now: Micros) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.notified = false;
        }
        self.dequeue(name, place, now);
    }

    /// `handoff.lua`. Returns the nonce and the token, if the name may be handed off to `place`.
    pub fn hand_off(
        &mut self,
        name: &Name,
        place: QueueMember,
        wire: Wire,
        now: Micros,
    ) -> Option<(Nonce, u64)> {
        let (nonce, ttl_ms, fencing) = place.handoff?;
        let token = if fencing { self.next_block(name)? } else { 0 };
        let nonce = Nonce::from_u128(nonce);
        let by = Field { nonce, client: place.client as u64 };
        self.put_lock(name, Held { wire, by, holds: 1, until: now / MS + ttl_ms });
        let _above_the_mark = self.accept(name, token);
        Some((nonce, token))
    }

    /// Records that a waiter was notified.
    pub fn mark_notified(&mut self, name: &Name, now: Micros) {
        let queue = self.queues.entry(name.clone()).or_default();
        queue.notified = true;
        if queue.waiting.is_empty() {
            queue.until = now / MS + 1_000;
        }
    }

    /// Removes the head of the queue and returns it.
    pub fn pop_head(&mut self, name: &Name, now: Micros) -> Option<QueueMember> {
        self.forget_queue(name, now);
        let queue = self.queues.get_mut(name)?;
        queue.notified = false;
        let first = queue.waiting.iter().min_by_key(|(_, since)| **since).map(|(first, _)| *first);
        if let Some(first) = first {
            queue.waiting.remove(&first);
        }
        self.forget_queue(name, now);
        first
    }

    /// The number of waiters for the name, plus one if a waiter was notified and has not come.
    pub fn waiting(&self, name: &Name, now: Micros) -> usize {
        let live = self.queues.get(name).filter(|queue| now / MS <= queue.until);
        live.map_or(0, |queue| queue.waiting.len() + usize::from(queue.notified))
    }

    fn forget_queue(&mut self, name: &Name, now: Micros) {
        if self.waiting(name, now) == 0 {
            self.queues.remove(name);
        }
    }
}
