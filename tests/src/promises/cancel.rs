//! A future may be dropped at any await, and it leaves no key and no listener behind (SAFETY.md
//! G7).

use std::time::Duration;

use quorumlock::{Locker, Owner};

use super::{LONG_LEASE, NAME};
use crate::{CountPolls, Drops, Testbed, within};

/// Far more polls than any future needs. A future that needs more would never be done.
const MAX_POLLS: usize = 200;

/// `lock()` of a free lock, by a locker that has yet to connect and by one that has.
pub async fn a_lock_future_dropped_anywhere_leaves_nothing_behind(bed: &Testbed) {
    let other = bed.locker();
    let connected = bed.locker();
    for fresh in [true, false] {
        for drops in [Drops::AtOnce, Drops::OnWake] {
            for polls in 0.. {
                assert!(polls < MAX_POLLS, "never done");
                let locker = if fresh { bed.locker() } else { connected.clone() };
                let lock = CountPolls::new(locker.lock(NAME).lease(LONG_LEASE), polls, drops);
                let guard = within("an end", lock).await;
                // This drops the last handle of a fresh locker. Its clean-up must still happen.
                drop(locker);
                let done = guard.is_some();
                drop(guard.transpose().expect("free"));
                bed.awaits_no_key(NAME).await;
                take_and_give_back(&other).await;
                if done {
                    break;
                }
            }
        }
    }
}

/// `lock()` of a held lock: the waiter disappears, and does not hold up other waiters.
pub async fn a_waiter_dropped_anywhere_leaves_nothing_behind(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 1..8 {
            let guard =
                within("a free lock", ours.lock(NAME).lease(LONG_LEASE)).await.expect("free");
            // The waiter is of another process: a waiter of the holder's process may never ask a
            // node.
            let waiting = CountPolls::new(other.lock(NAME).lease(LONG_LEASE), polls, drops);
            // The future may wait for a wake-up that never comes. The timeout cancels this wait,
            // too.
            let waited = tokio::time::timeout(Duration::from_millis(200), waiting).await;
            assert!(!matches!(waited, Ok(Some(_))), "two holders");
            guard.unlock().await.expect("unlocked");
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&bed.locker()).await;
        }
    }
    bed.awaits_no_waiter(NAME).await;
}

/// `unlock()`: once it has begun, the release happens.
pub async fn an_unlock_future_dropped_anywhere_still_releases(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MAX_POLLS, "never done");
            let guard =
                within("a free lock", ours.lock(NAME).lease(LONG_LEASE)).await.expect("free");
            let done = within("an end", CountPolls::new(guard.unlock(), polls, drops)).await;
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&other).await;
            if let Some(answer) = done {
                answer.expect("unlocked");
                break;
            }
        }
    }
}

/// `Locker::run`: the work is dropped, and the lock is released.
pub async fn a_run_future_dropped_anywhere_releases(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MAX_POLLS, "never done");
            let work = ours.run(NAME, async |view| {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    assert!(view.check().is_ok(), "{view:?}");
                }
            });
            let done = within("an end", CountPolls::new(work, polls, drops)).await;
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&other).await;
            if let Some(answer) = done {
                answer.expect("worked");
                break;
            }
        }
    }
}

/// Re-entry: the outer hold stays as it was.
pub async fn a_re_entry_dropped_anywhere_leaves_the_outer_hold(bed: &Testbed) {
    let (ours, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = ours.lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("free");
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MAX_POLLS, "never done");
            let again =
                CountPolls::new(ours.lock(NAME).lease(LONG_LEASE).owner(&owner), polls, drops);
            let inner = within("an end", again).await.transpose().expect("ours");
            let done = inner.is_some();
            assert_eq!(outer.hold_count(), if done { 2 } else { 1 });
            drop(inner);
            assert_eq!(outer.hold_count(), 1);
            outer.check().expect("still held");
            assert!(other.try_lock(NAME).await.expect("an answer").is_none());
            if done {
                break;
            }
        }
    }
    outer.unlock().await.expect("unlocked");
    take_and_give_back(&other).await;
}

/// `Guard::run` and `Guard::lost`, dropped while they wait: the guard stays as it was.
pub async fn a_dropped_wait_for_loss_leaves_the_guard_alone(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    // The futures are polled never or once: nothing wakes them a second time.
    for polls in 0..2 {
        assert!(CountPolls::new(guard.lost(), polls, Drops::AtOnce).await.is_none());
        let work = guard.run(std::future::pending::<()>());
        assert!(CountPolls::new(work, polls, Drops::AtOnce).await.is_none());
    }
    assert!(guard.check().is_ok());
    assert!(other.try_lock(NAME).await.expect("an answer").is_none());
    guard.unlock().await.expect("unlocked");
}

async fn take_and_give_back(locker: &Locker) {
    let guard =
        within("nobody in the way", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    guard.unlock().await.expect("unlocked");
}
