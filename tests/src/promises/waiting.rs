//! A wait ends by a release, by the end of a lease, or at its limit (SAFETY.md G6).

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::{Error, Locker};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Stopwatch, Testbed, within};

/// `Busy` comes when the limit of the wait is over, and not before.
pub async fn a_wait_ends_at_its_bound_and_not_before(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let _guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    for locker in [&ours, &other] {
        for wait in [Duration::from_millis(400), Duration::ZERO] {
            let watch = Stopwatch::start();
            let answer = within("the bound", locker.lock(NAME).wait(wait)).await;
            let Err(Error::Busy(busy)) = answer else { panic!("{answer:?}") };
            assert!(watch.elapsed() >= wait, "{:?}", watch.elapsed());
            assert_eq!(busy.name.as_str(), NAME);
            // A waiter in the holder's own process may have asked no node.
            if let Some(remaining) = busy.remaining {
                assert!(remaining <= LONG_LEASE, "{remaining:?}");
            }
        }
    }
}

/// A free lock is granted at once, whatever the limit of the wait.
pub async fn a_wait_of_nothing_still_takes_a_free_lock(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).wait(Duration::ZERO).await.expect("it is free");
    assert!(guard.check().is_ok());
}

/// The lease is far longer than the test waits, so only the release can explain the grant.
pub async fn a_release_wakes_a_waiter_of_the_same_process(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let waiter = tokio::spawn(async move { locker.lock(NAME).wait(LONG_LEASE).await });
    // The waiter should be waiting by now. The test cannot see this; if it is not, the test checks
    // less but stays correct.
    tokio::time::sleep(Duration::from_millis(100)).await;
    guard.unlock().await.expect("unlocked");
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// The same across processes, and with a dropped guard.
pub async fn a_release_wakes_a_waiter_of_another_process(bed: &Testbed) {
    let mut holder = bed.holder(NAME, LONG_LEASE).await;
    let locker = bed.locker();
    let waiter = tokio::spawn(async move { locker.lock(NAME).lease(LONG_LEASE).await });
    bed.awaits_waiters(NAME).await;
    assert!(holder.unlock().await, "it was kept");
    let guard = within("woken", waiter).await.expect("no panic").expect("free");

    let third = bed.locker();
    let waiter = tokio::spawn(async move { third.lock(NAME).await });
    bed.awaits_waiters(NAME).await;
    drop(guard);
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// Several waiters of several processes all get the lock.
pub async fn every_waiter_gets_its_turn(bed: &Testbed) {
    let lockers = [bed.locker(), bed.locker(), bed.locker()];
    let guard = lockers[0].lock(NAME).lease(LONG_LEASE).await.expect("free");
    let waiters = (0..12).map(|i| {
        let locker = lockers[i % lockers.len()].clone();
        tokio::spawn(async move {
            let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
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

/// A killed holder keeps the lock until its lease ends, and no longer: nothing renews the lease.
pub async fn a_waiter_gets_in_when_the_holder_dies(bed: &Testbed) {
    let holder = bed.holder(NAME, SHORT_LEASE).await;
    let locker = bed.locker();
    let waiter = tokio::spawn(async move { locker.lock(NAME).await });
    holder.kill().await;
    // From here on the nodes' own clocks decide: no grant may come before the first node's key
    // expires.
    let dead = Stopwatch::start();
    let mut first = SHORT_LEASE;
    for node in bed.live().await {
        let asked = dead.elapsed();
        let left = u64::try_from(node.pttl(NAME).await).unwrap_or_default();
        first = first.min(asked + Duration::from_millis(left));
    }
    // On a machine that is too slow there is nothing left to check.
    let seen = !waiter.is_finished();
    drop(within("the end of the lease", waiter).await.expect("no panic").expect("free"));
    assert!(!seen || dead.elapsed() >= first, "{:?} of {first:?}", dead.elapsed());
}

/// Three waiters: one waits on the servers, one waits behind it in the same process, and one waits
/// in the holder's own process. All get an error, and nothing is granted to them after that.
pub async fn the_end_of_a_locker_ends_all_who_wait(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let wait = |locker: &Locker| tokio::spawn(locker.lock(NAME).lease(LONG_LEASE).into_future());
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

/// `close` ends acquisitions in every stage: they have ended when it returns, and what they may
/// have been granted is released.
pub async fn nothing_is_granted_once_a_locker_is_closed(bed: &Testbed) {
    for yields in [0, 1, 2, 3, 5, 8, 13] {
        let locker = bed.locker();
        let over = Arc::new(AtomicBool::new(false));
        let (lock, tell) = (locker.lock(NAME).lease(LONG_LEASE), over.clone());
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

/// Several callers try at once: one of them gets the lock, and the others get an answer. Where votes
/// are split too often all are told that it is busy (`TUNING.max_try_splits`): that is rare.
pub async fn a_free_lock_that_many_try_is_given_to_one(bed: &Testbed) {
    const ROUNDS: usize = 15;

    let lockers: Vec<_> = (0..4).map(|_| bed.locker()).collect();
    let mut won = 0;
    for round in 0..ROUNDS {
        let name = format!("{NAME}/{round}");
        let tries =
            lockers.iter().map(|locker| locker.try_lock(&name).lease(LONG_LEASE).into_future());
        let tries = within("answers", futures::future::join_all(tries)).await;
        let taken: Vec<_> =
            tries.into_iter().filter_map(|taken| taken.expect("an answer")).collect();
        assert!(taken.len() <= 1, "round {round}");
        won += taken.len();
        for guard in taken {
            guard.unlock().await.expect("held");
        }
    }
    assert!(won >= ROUNDS * 4 / 5, "{won} of {ROUNDS}");
}
