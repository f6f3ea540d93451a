//! Waiting ends by a release, by the end of a lease, or at its bound (SAFETY.md G6).

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::{Error, Locker};

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

/// On the wire, in line behind that in the same process, and in the holder's own: all are told, and nothing is granted
/// to them after that.
pub async fn the_end_of_a_locker_ends_all_who_wait(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG).await.expect("free");
    let wait = |locker: &Locker| tokio::spawn(locker.lock(NAME).lease(LONG).into_future());
    let elsewhere = [wait(&other), wait(&other), wait(&other)];
    bed.awaits_waiters(NAME).await;
    within("all ended", other.close()).await;
    bed.awaits_no_waiter(NAME).await;
    let here = [wait(&ours), wait(&ours)];
    tokio::task::yield_now().await;
    within("all ended", ours.close()).await;
    for waiter in elsewhere.into_iter().chain(here) {
        let answer = within("an end", waiter).await.expect("no panic");
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
    guard.check().expect("guards that live stay valid");
    guard.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
}

/// Whatever an acquisition is at when its locker is closed: it has ended when that returns, and what it may have been
/// granted is given back.
pub async fn nothing_is_granted_once_a_locker_is_closed(bed: &Bed) {
    for yields in [0, 1, 2, 3, 5, 8, 13] {
        let locker = bed.locker();
        let over = Arc::new(AtomicBool::new(false));
        let (lock, tell) = (locker.lock(NAME).lease(LONG), over.clone());
        let taking = tokio::spawn(async move {
            let guard = lock.await;
            tell.store(true, Ordering::SeqCst);
            guard
        });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        within("its end", locker.close()).await;
        let granted = over.load(Ordering::SeqCst);
        match within("an end", taking).await.expect("no panic") {
            Ok(guard) => {
                assert!(granted, "after it was closed");
                guard.unlock().await.expect("held");
            }
            Err(error) => assert!(matches!(error, Error::Closed), "{error:?}"),
        }
        bed.awaits_no_key(NAME).await;
    }
}

/// Several try at once: one of them has it, and the others are told the truth.
pub async fn a_free_lock_that_many_try_is_given_to_one(bed: &Bed) {
    let lockers: Vec<_> = (0..4).map(|_| bed.locker()).collect();
    for round in 0..15 {
        let name = format!("{NAME}/{round}");
        let tries = lockers.iter().map(|locker| locker.try_lock(&name).lease(LONG).into_future());
        let tries = within("answers", futures::future::join_all(tries)).await;
        let taken: Vec<_> =
            tries.into_iter().filter_map(|taken| taken.expect("an answer")).collect();
        assert_eq!(taken.len(), 1, "round {round}");
        for guard in taken {
            guard.unlock().await.expect("held");
        }
    }
}
