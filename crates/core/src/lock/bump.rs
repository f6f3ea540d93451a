//! A lock is given back and asked for again: in one request, where a release hands it over to the next.

use std::time::Duration;

use quorumlock_watchdog::Instant;

use super::guard::Guard;
use super::in_queues::InQueues;
use super::quest::Quest;
use super::turns::Turn;
use crate::{Error, Lock, Loss};

impl Guard {
    /// Lets others have the lock, and takes it again: as [`Guard::unlock`] and then
    /// [`Locker::lock`](crate::Locker::lock). On a single node that is one request instead of two, and it stands behind
    /// all who wait there; that spares the server, and not the next holder, who has the lock a little later. On a quorum
    /// others go first most often: a courtesy. Named after `MutexGuard::bump` of lock_api; but a name that nobody waits
    /// for is given back, too, and what is held next has a fencing token of its own.
    ///
    /// ```no_run
    /// # async fn doc(mut guard: quorumlock_core::Guard) -> Result<(), quorumlock_core::Error> {
    /// for _page in 0..10 {
    ///     // ... a part of the job, with its own `guard.fence()` in every write ...
    ///     guard = guard.bump().await?;
    /// }
    /// guard.unlock().await
    /// # }
    /// ```
    ///
    /// Await the result, after giving it options, as any lock; its owner stays the same. After [`Lock::wait`], or
    /// dropped, nobody here holds the lock. One that other guards of the same owner share stays held.
    ///
    /// # Errors
    /// When awaited: as [`Guard::unlock`], and nothing is taken then; and as [`Locker::lock`](crate::Locker::lock).
    ///
    /// # Cancel safety
    /// The lock is given back at the first poll, or by the drop if that comes before; what might have been granted
    /// since is released.
    pub fn bump(self) -> Lock {
        Lock::after(self)
    }
}

/// Between two holds of one task: the first is given back, and the second asked for.
pub(super) struct Bumped {
    /// When it was asked for.
    pub(super) asked: Instant,
    pub(super) queues: InQueues,
    pub(super) turn: Turn,
}

impl Quest {
    /// Gives `guard`, which nobody shares, back, to have its lock again: and asks for it with that, where it would be
    /// handed over, and nobody else of this process comes first.
    pub(super) async fn bump(&self, mut guard: Guard) -> Result<Option<Box<Bumped>>, Error> {
        let (inner, lease) = (&self.inner, guard.lease().clone());
        let alone = || lease.turn().as_ref().is_some_and(|turn| turn.waiting() == 0);
        let Some(terms) = self.offer().filter(|_| alone()) else {
            self.part_with(guard).await?;
            return Ok(None);
        };
        let term = self.term()?;
        let asked = inner.clock.now();
        let still = lease.check_at(asked);
        let before = guard.end()?;
        // Declared before the queues, so that they are left before the next of this process asks.
        let turn = lease.take_turn();
        let mut queues = InQueues::join(&inner.lessor, &term.name, Some(terms));
        queues.ask((&term, asked), (Duration::ZERO, false));
        let freed = inner.lessor.bump(before, lease.held(), (term.nonce, terms.0)).await?;
        still?;
        if !freed.held {
            return Err(lease.lost(Loss::Gone).into());
        }
        Ok(turn.map(|turn| Box::new(Bumped { turn, queues, asked })))
    }

    /// Gives `guard` back as if others waited elsewhere, who then go first: that is what it is done for.
    pub(super) async fn part_with(&self, guard: Guard) -> Result<(), Error> {
        if let Some(turn) = guard.lease().turn().as_ref() {
            turn.contended(self.inner.clock.now());
        }
        guard.unlock().await
    }
}
