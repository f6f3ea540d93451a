//! Who waits for names at a node: a model of `queue.lua` and `wake.lua`. Advice, as there.

use std::collections::BTreeMap;

use quorumlock_core::{InLine, Name};

use super::store::Store;
use super::time::{MS, Micros, micros};

/// The queue of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// In milliseconds of the node's clock.
    until: u64,
    /// Clients, and since when they wait.
    waiting: BTreeMap<usize, Micros>,
}

impl Store {
    /// Whoever is denied stands in the queue.
    pub(super) fn stand(
        &mut self,
        name: &Name,
        client: usize,
        in_line: InLine,
        ttl_ms: u64,
        now: Micros,
    ) {
        self.forget_queue(name, now);
        let queue = self.queues.entry(name.clone()).or_default();
        queue.waiting.entry(client).or_insert(now.saturating_sub(micros(in_line.waited)));
        queue.until = queue.until.max(now / MS + ttl_ms.max(1_000));
    }

    /// Whether a free name goes to others first.
    pub(super) fn others_first(&mut self, name: &Name, in_line: InLine, now: Micros) -> bool {
        self.forget_queue(name, now);
        let behind = in_line.behind.get();
        let uncalled = || self.counter(name, now).is_some_and(|last| last <= behind);
        behind > 0
            && self.held(name, now).is_none()
            && (self.queues.contains_key(name) || uncalled())
    }

    /// Takes a client out of the queue; whether it was there.
    pub(super) fn leave(&mut self, name: &Name, client: usize, now: Micros) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let there = queue.waiting.remove(&client).is_some();
        if queue.waiting.is_empty() {
            self.queues.remove(name);
        }
        there
    }

    /// Takes the first one out of the queue.
    pub(super) fn next_in_line(&mut self, name: &Name, now: Micros) -> Option<usize> {
        self.forget_queue(name, now);
        let waiting = &self.queues.get(name)?.waiting;
        let first = *waiting.iter().min_by_key(|(_, since)| **since)?.0;
        self.leave(name, first, now);
        Some(first)
    }

    /// How many wait for the name.
    pub(super) fn waiting(&self, name: &Name, now: Micros) -> usize {
        let live = self.queues.get(name).filter(|queue| now / MS <= queue.until);
        live.map_or(0, |queue| queue.waiting.len())
    }

    fn forget_queue(&mut self, name: &Name, now: Micros) {
        if self.waiting(name, now) == 0 {
            self.queues.remove(name);
        }
    }
}
