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
    /// The mark of one that was woken and has not come yet.
    called: bool,
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
        queue.waiting.entry(client).or_insert_with(|| now.saturating_sub(micros(in_line.waited)));
        queue.until = queue.until.max(now / MS + ttl_ms.max(1_000));
    }

    /// Whether a free name goes to others first.
    pub(super) fn others_first(&mut self, name: &Name, in_line: InLine, now: Micros) -> bool {
        self.forget_queue(name, now);
        in_line.others_first && self.held(name, now).is_none() && self.queues.contains_key(name)
    }

    /// Takes a client out of the queue; whether it was there.
    pub(super) fn leave(&mut self, name: &Name, client: usize, now: Micros) -> bool {
        self.forget_queue(name, now);
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let there = queue.waiting.remove(&client).is_some();
        self.forget_queue(name, now);
        there
    }

    /// Whoever has the lock waits no more.
    pub(super) fn served(&mut self, name: &Name, client: usize, now: Micros) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.called = false;
        }
        self.leave(name, client, now);
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
    pub(super) fn next_in_line(&mut self, name: &Name, now: Micros) -> Option<usize> {
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
