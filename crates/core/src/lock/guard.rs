use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::lease::Lease;
use super::locker::Inner;
use crate::{Error, Fence, Lane, Loss, Lost, Nonce, Term, runtime};

/// A held lock. It is renewed until it is unlocked, dropped or lost.
///
/// Dropping it hands the release to the watchdog's thread and never blocks; [`Guard::unlock`]
/// waits for the release and tells whether the lock was still held. A process that ends right after a
/// drop may end before the release is sent: unlock, or [`Locker::close`](crate::Locker::close),
/// before that.
///
/// Drop or unlock a lost one, too: nodes that still hold the lock keep the next holder out until you
/// have, or until the window that you were told shuts (SAFETY.md H26).
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    inner: Arc<Inner>,
    lease: Arc<Lease>,
    unlocked: bool,
}

/// A view of a held lock: cloneable, holds nothing.
#[derive(Clone)]
pub struct Watch {
    lease: Arc<Lease>,
}

macro_rules! views {
    ($view:ident) => {
        impl $view {
            /// The lock's name.
            pub fn name(&self) -> &str {
                self.lease.name.as_str()
            }

            /// The fencing token of this acquisition: send it with every write.
            pub fn fence(&self) -> Fence {
                self.lease.fence
            }

            /// What the nodes know this hold by: a [`Holder`](crate::Holder) that
            /// [`has`](crate::Holder::has) it is this one. Fresh for each acquisition; holds that
            /// a task of this process handed over to the next share it, and differ in their token.
            pub fn nonce(&self) -> Nonce {
                self.lease.nonce
            }

            /// How long the lock is surely ours from now on, even if no node is ever heard of
            /// again; zero once lost. Computed from the clock at each call.
            pub fn valid_for(&self) -> Duration {
                self.lease.standing.valid_for()
            }

            /// Why the lock will end if it is not renewed any more:
            /// [`Loss::HoldLimit`] if it already stands to its `hold_at_most` limit, else
            /// [`Loss::WindowShut`]. Of a lock that is lost, why it was.
            pub fn loss_ahead(&self) -> Loss {
                let standing = &self.lease.standing;
                standing.check().err().unwrap_or_else(|| standing.terms().loss_at_end())
            }

            /// Is the lock ours at this instant? A yes says nothing about the next one: put the
            /// token into every write.
            ///
            /// # Errors
            /// [`Lost`], for ever after the first time.
            pub fn check(&self) -> Result<(), Lost> {
                self.lease.check()
            }

            /// Waits until the lock is no longer ours; at once if it is not.
            ///
            /// Resolves no later than the window shuts, given that the runtime polls it and the machine
            /// does not sleep (then within a second after it wakes); a blocked
            /// runtime hears of it late, so check before each step that matters.
            ///
            /// # Cancel safety
            /// Cancel safe.
            pub async fn lost(&self) -> Lost {
                self.lease.lost(self.lease.standing.lost().await)
            }

            /// Whether it is still ours, read without waiting, and for how long.
            fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))
                    .field("name", &self.lease.name)
                    .field("fence", &self.lease.fence.get())
                    .field("valid_for", &self.valid_for())
                    .finish_non_exhaustive()
            }
        }

        impl fmt::Debug for $view {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.describe(f)
            }
        }
    };
}

views!(Guard);
views!(Watch);

/// Work is dropped so long before the window shuts, so that a timer which fires late (tokio's has
/// a granularity of 1 ms) still fires in time.
const CLOSING: Duration = Duration::from_millis(2);

impl Guard {
    pub(super) fn new(inner: Arc<Inner>, lease: Arc<Lease>) -> Self {
        Self { inner, lease, unlocked: false }
    }

    /// Does `work` while the lock is ours: drops it no later than the window shuts, even when every
    /// node is silent.
    ///
    /// # Errors
    /// [`Lost`] if the lock was lost first.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work; the lock stays held by the guard.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let lost = async {
            let why = self.lease.standing.lost_within(CLOSING).await;
            self.lease.lost(self.lease.standing.end(why))
        };
        tokio::select! {
            biased;
            lost = lost => Err(lost),
            out = work => Ok(out),
        }
    }

    /// A view of the lock for other tasks.
    pub fn watch(&self) -> Watch {
        Watch { lease: self.lease.clone() }
    }

    /// How many guards of the same [`Owner`](crate::Owner) share this lock.
    pub fn hold_count(&self) -> u32 {
        self.lease.holds.load(Ordering::SeqCst)
    }

    /// Releases the lock, or one hold of it if other guards share it. A lock that another task of
    /// this process waits for may go to it without a word to the nodes.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was no longer held; [`Error::Unreachable`] or [`Error::Refused`] if too few
    /// nodes confirmed:
    /// it is not renewed any more, and free when its lease has ended; [`Error::Config`] outside a
    /// runtime: then it is released as by a drop.
    ///
    /// # Cancel safety
    /// The release is posted at the first poll; dropped before that, it is posted by the drop.
    pub async fn unlock(mut self) -> Result<(), Error> {
        // Else the drop hands the release to the watchdog's thread, which needs no runtime of ours.
        runtime::timed()?;
        self.unlocked = true;
        let now = self.inner.clock.now();
        let still = self.lease.check_at(now);
        if self.lease.leave() > 0 {
            still?;
            return self.publish_holds().await;
        }
        if self.inner.hand_over(&self.lease, now) {
            // The next holder goes on first: most often we would only ask again, behind it.
            tokio::task::yield_now().await;
            return Ok(());
        }
        let term = self.end()?;
        let clock = &self.inner.clock;
        let contended = self.inner.turns.is_contended(&self.lease.name, clock);
        let released = self.inner.lessor.release(term, self.lease.held(), Lane::Work, contended);
        let mut turn = self.lease.take_turn();
        if self.lease.series.handed == 0 && !contended {
            // Whoever comes next in this process queues behind our release on the same connection.
            // After a series of its own, or with others about, it first hears whether they wait.
            turn = None;
        }
        let freed = released.await;
        if let Ok(freed) = &freed {
            self.inner.turns.released(&self.lease.name, freed.woke, clock);
        }
        drop(turn);
        still?;
        if freed?.held { Ok(()) } else { Err(self.lease.lost(Loss::Gone).into()) }
    }

    /// Ends the last hold: what is to be given back to the nodes.
    ///
    /// # Errors
    /// If it was lost: the keeper cleans up.
    pub(super) fn end(&mut self) -> Result<Term, Lost> {
        self.unlocked = true;
        let kept = self.inner.keeper.forget(&self.lease);
        let why = self.lease.standing.end(Loss::Released);
        if kept {
            Ok(self.lease.term(self.lease.standing.terms().lease))
        } else {
            Err(self.lease.lost(why))
        }
    }

    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.unlocked {
            return;
        }
        if self.lease.leave() == 0 && !self.inner.hand_over(&self.lease, self.inner.clock.now()) {
            self.lease.standing.end(Loss::Released);
            self.inner.keeper.release(self.lease.clone());
        }
        // Otherwise the watchdog's next renewal carries the lower count.
    }
}
