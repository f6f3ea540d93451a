//! Waiting ends by a release, by the end of a lease, or at its bound (SAFETY.md G6).

use std::time::Duration;

use quorumlock::Error;

use super::{LONG, NAME, SHORT};
use crate::{Bed, Stopwatch, within};

/// `Busy` comes when the bound is over: not before, and not without end.
pub async fn a_wait_ends_at_its_bound_and_not_before(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let _guard = ours.lock(NAME).lease(LONG).await.expect("free");
    for locker in [&ours, &other] {
        for wait in [Duration::from_millis(400), Duration::ZERO] {
            let watch = Stopwatch::start();
            let answer = within("the bound", locker.lock(NAME).wait(wait)).await;
            let Err(Error::Busy(busy)) = answer else { panic!("{answer:?}") };
            assert!(watch.elapsed() >= wait, "{:?}", watch.elapsed());
            assert_eq!(busy.name.as_str(), NAME);
            // A waiter in the holder's own process may have asked no node.
            if let Some(remaining) = busy.remaining {
                assert!(remaining <= LONG, "{remaining:?}");
            }
        }
    }
}

/// A free lock is not waited for, whatever the bound.
pub async fn a_wait_of_nothing_still_takes_a_free_lock(bed: &Bed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).wait(Duration::ZERO).await.expect("it is free");
    assert!(guard.check().is_ok());
}

/// The lease is far longer than the test waits: only the release can explain that it gets in.
pub async fn a_release_wakes_a_waiter_of_the_same_process(bed: &Bed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG).await.expect("free");
    let waiter = tokio::spawn(async move { locker.lock(NAME).wait(LONG).await });
    // It shall be waiting, but nothing tells: if it is not yet, the test is easier, not wrong.
    tokio::time::sleep(Duration::from_millis(100)).await;
    guard.unlock().await.expect("unlocked");
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// As above, across processes; and by a dropped guard.
pub async fn a_release_wakes_a_waiter_of_another_process(bed: &Bed) {
    let mut holder = bed.holder(NAME, LONG).await;
    let locker = bed.locker();
    let waiter = tokio::spawn(async move { locker.lock(NAME).lease(LONG).await });
    bed.awaits_waiters(NAME).await;
    assert!(holder.unlock().await, "it was kept");
    let guard = within("woken", waiter).await.expect("no panic").expect("free");

    let third = bed.locker();
    let waiter = tokio::spawn(async move { third.lock(NAME).await });
    bed.awaits_waiters(NAME).await;
    drop(guard);
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// Several waiters of several processes all get their turn.
pub async fn every_waiter_gets_its_turn(bed: &Bed) {
    let lockers = [bed.locker(), bed.locker(), bed.locker()];
    let guard = lockers[0].lock(NAME).lease(LONG).await.expect("free");
    let waiters = (0..12).map(|i| {
        let locker = lockers[i % lockers.len()].clone();
        tokio::spawn(async move {
            let guard = locker.lock(NAME).lease(LONG).await.expect("free");
            guard.unlock().await.expect("unlocked");
        })
    });
    let waiters = waiters.collect::<Vec<_>>();
    bed.awaits_waiters(NAME).await;
    guard.unlock().await.expect("unlocked");
    for waiter in waiters {
        within("its turn", waiter).await.expect("no panic");
    }
}

/// A holder that is killed keeps the lock for its lease, which nobody renews, and no longer.
pub async fn a_waiter_gets_in_when_the_holder_dies(bed: &Bed) {
    let holder = bed.holder(NAME, SHORT).await;
    let locker = bed.locker();
    let waiter = tokio::spawn(async move { locker.lock(NAME).await });
    holder.kill().await;
    // From here on the nodes' own clocks decide: nobody before the first of them lets go.
    let dead = Stopwatch::start();
    let mut first = SHORT;
    for node in bed.live().await {
        let asked = dead.elapsed();
        let left = u64::try_from(node.pttl(NAME).await).unwrap_or_default();
        first = first.min(asked + Duration::from_millis(left));
    }
    // On a machine that slow there is nothing left to see.
    let seen = !waiter.is_finished();
    drop(within("the end of the lease", waiter).await.expect("no panic").expect("free"));
    assert!(!seen || dead.elapsed() >= first, "{:?} of {first:?}", dead.elapsed());
}
