use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Name;

/// Who in this process may be on the wire for a name: one at a time, first come first served.
///
/// The turn belongs to the lease from the first request to the end of the release, so that waiters
/// of one process never contend with each other on the nodes. The next request follows the release
/// on the same connection, ahead of every other process; so runs are bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<Name, Arc<Queue>>>>);

#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    /// How often in a row this process took the name.
    run: AtomicU32,
    /// Whether other processes waited for it at a release.
    wanted: AtomicBool,
}

/// The right to be on the wire for a name, or a place in the queue for it.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    name: Name,
    queue: Option<Arc<Queue>>,
    permit: Option<OwnedSemaphorePermit>,
}

/// After so many in a row others get their turn, if they wait.
const LONGEST_RUN: u32 = 16;

impl Turns {
    /// Waits for the turn. Dropping the future gives up the place.
    pub(super) async fn wait(&self, name: &Name) -> Turn {
        let (mut turn, semaphore) = self.queue(name);
        // Never closed, so never an error.
        turn.permit = semaphore.acquire_owned().await.ok();
        turn
    }

    /// The turn, if nobody has it.
    pub(super) fn take(&self, name: &Name) -> Option<Turn> {
        let (mut turn, semaphore) = self.queue(name);
        turn.permit = semaphore.try_acquire_owned().ok();
        turn.permit.is_some().then_some(turn)
    }

    /// Other processes wait for `name`.
    pub(super) fn wanted(&self, name: &Name) {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(name) {
            queue.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn queue(&self, name: &Name) -> (Turn, Arc<Semaphore>) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(name.clone()).or_insert_with(|| {
            Arc::new(Queue {
                turn: Arc::new(Semaphore::new(1)),
                run: AtomicU32::new(0),
                wanted: AtomicBool::new(false),
            })
        });
        let turn = queue.turn.clone();
        let queue = Some(queue.clone());
        (Turn { turns: self.clone(), name: name.clone(), queue, permit: None }, turn)
    }
}

impl Turn {
    /// Whether this process has had the name often enough while others wait.
    pub(super) fn must_yield(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| {
            let run = queue.run.fetch_add(1, Ordering::Relaxed);
            let must = run >= LONGEST_RUN && queue.wanted.swap(false, Ordering::Relaxed);
            if must {
                queue.run.store(0, Ordering::Relaxed);
            }
            must
        })
    }

    /// Another process had the name: the run ended by itself.
    pub(super) fn was_elsewhere(&self) {
        if let Some(queue) = &self.queue {
            queue.run.store(0, Ordering::Relaxed);
        }
    }

    /// Other processes wait for the name.
    pub(super) fn wanted(&self) {
        if let Some(queue) = &self.queue {
            queue.wanted.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.permit = None;
        self.queue = None;
        // Waiters and holders each own a reference: the last one leaves nothing behind.
        if queues.get(&self.name).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn first_come_first_served_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let first = turns.take(&name).expect("free");
        assert!(turns.take(&name).is_none());
        let mut second = Box::pin(turns.wait(&name));
        let mut third = Box::pin(turns.wait(&name));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "not before the second");
        drop(second.await);
        drop(third.await);
        assert!(turns.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_run_is_bounded_only_while_others_wait() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let turn = turns.take(&name).expect("free");
        assert!((0..100).all(|_| !turn.must_yield()), "nobody else waits");
        turn.wanted();
        assert!(turn.must_yield());
        turns.wanted(&name);
        assert!((0..LONGEST_RUN).all(|_| !turn.must_yield()), "a new run");
        assert!(turn.must_yield());
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let first = turns.take(&name).expect("free");
        let mut second = Box::pin(turns.wait(&name));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        drop(second);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
