use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Name;

/// Who in this process may be on the wire for a name: one at a time, first come first served.
///
/// The turn belongs to the lease from the first request to the end of the release, so that waiters
/// of one process never contend with each other on the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<Name, Arc<Semaphore>>>>);

/// The right to be on the wire for a name, or a place in the queue for it.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    name: Name,
    permit: Option<OwnedSemaphorePermit>,
}

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

    fn queue(&self, name: &Name) -> (Turn, Arc<Semaphore>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let semaphore =
            names.entry(name.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone();
        (Turn { turns: self.clone(), name: name.clone(), permit: None }, semaphore)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut names = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.permit = None;
        // Waiters and holders each own a reference: the last one leaves nothing behind.
        if names.get(&self.name).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            names.remove(&self.name);
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
