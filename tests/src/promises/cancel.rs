//! A future may be dropped at any await, and nothing is left behind: no key, no listener
//! (SAFETY.md G7).

use std::time::Duration;

use quorumlock::{Locker, Owner};

use super::{LONG, NAME};
use crate::{Bed, Drops, Polls, within};

/// Far more awaits than there are; a future that needs more would never be done.
const MOST_POLLS: usize = 200;

/// `lock()` of a free lock, by a locker that has yet to connect and by one that has.
pub async fn a_lock_future_dropped_anywhere_leaves_nothing_behind(bed: &Bed) {
    let other = bed.locker();
    let connected = bed.locker();
    for fresh in [true, false] {
        for drops in [Drops::AtOnce, Drops::OnWake] {
            for polls in 0.. {
                assert!(polls < MOST_POLLS, "never done");
                let locker = if fresh { bed.locker() } else { connected.clone() };
                let lock = Polls::new(locker.lock(NAME).lease(LONG), polls, drops);
                let guard = within("an end", lock).await;
                // With a fresh one, the last handle goes too, and its clean-up must happen still.
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

/// `lock()` of a held lock: the waiter goes away, and is not in the way of others.
pub async fn a_waiter_dropped_anywhere_leaves_nothing_behind(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 1..8 {
            let guard = within("a free lock", ours.lock(NAME).lease(LONG)).await.expect("free");
            // Another process's waiter, as one of the holder's may never ask a node.
            let waiting = Polls::new(other.lock(NAME).lease(LONG), polls, drops);
            // It may wait for a wake-up that will not come: that, too, is a cancelled wait.
            let waited = tokio::time::timeout(Duration::from_millis(200), waiting).await;
            assert!(!matches!(waited, Ok(Some(_))), "two holders");
            guard.unlock().await.expect("unlocked");
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&bed.locker()).await;
        }
    }
    bed.awaits_no_waiter(NAME).await;
}

/// `unlock()`: begun is as good as done.
pub async fn an_unlock_future_dropped_anywhere_still_releases(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MOST_POLLS, "never done");
            let guard = within("a free lock", ours.lock(NAME).lease(LONG)).await.expect("free");
            let done = within("an end", Polls::new(guard.unlock(), polls, drops)).await;
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&other).await;
            if let Some(answer) = done {
                answer.expect("unlocked");
                break;
            }
        }
    }
}

/// `Locker::run`: the work is dropped, the lock released.
pub async fn a_run_future_dropped_anywhere_releases(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MOST_POLLS, "never done");
            let work = ours.run(NAME, async |watch| {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    assert!(watch.check().is_ok(), "{watch:?}");
                }
            });
            let done = within("an end", Polls::new(work, polls, drops)).await;
            bed.awaits_no_key(NAME).await;
            take_and_give_back(&other).await;
            if let Some(answer) = done {
                answer.expect("worked");
                break;
            }
        }
    }
}

/// Re-entry: the outer hold is as it was.
pub async fn a_re_entry_dropped_anywhere_leaves_the_outer_hold(bed: &Bed) {
    let (ours, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = ours.lock(NAME).lease(LONG).owner(&owner).await.expect("free");
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < MOST_POLLS, "never done");
            let again = Polls::new(ours.lock(NAME).lease(LONG).owner(&owner), polls, drops);
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

/// `Guard::run` and `Guard::lost`, dropped while they wait: the guard is as it was.
pub async fn a_dropped_wait_for_loss_leaves_the_guard_alone(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG).await.expect("free");
    // Polled never, or once: nothing wakes them a second time.
    for polls in 0..2 {
        assert!(Polls::new(guard.lost(), polls, Drops::AtOnce).await.is_none());
        let work = guard.run(std::future::pending::<()>());
        assert!(Polls::new(work, polls, Drops::AtOnce).await.is_none());
    }
    assert!(guard.check().is_ok());
    assert!(other.try_lock(NAME).await.expect("an answer").is_none());
    guard.unlock().await.expect("unlocked");
}

async fn take_and_give_back(locker: &Locker) {
    let guard = within("nobody in the way", locker.lock(NAME).lease(LONG)).await.expect("free");
    guard.unlock().await.expect("unlocked");
}
