//! A lock can be lost, and its holder is told before another may win (SAFETY.md G5).

use std::time::Duration;

use quorumlock::{Guard, Locker, Loss};

use super::{LONG, NAME, SHORT};
use crate::{Bed, Stopwatch, eventually, within};

/// The whole process of the holder is stopped, its watchdog with it, and another one gets in. The
/// first thing that the holder hears when it goes on is that it holds nothing; and whatever it
/// still has to say to the nodes does not harm the other one.
pub async fn a_paused_holder_is_told_when_it_wakes(bed: &Bed) {
    let mut holder = bed.holder(NAME, SHORT).await;
    assert!(holder.believes().await);
    holder.pause();
    let locker = bed.locker();
    let guard = within("its end", locker.lock(NAME).lease(LONG)).await.expect("free");
    holder.resume();
    assert!(!holder.believes().await, "two holders: {guard:?} and the one that was paused");
    assert!(!holder.unlock().await, "it unlocked what it did not hold");
    assert!(locker.is_locked(NAME).await.expect("an answer"), "a late release took the lock away");
    guard.check().expect("still held");
    guard.unlock().await.expect("still held");
}

/// All nodes fall silent and are heard again at different instants round the end of the lease: if
/// another one wins then, the holder already knows.
pub async fn a_holder_is_told_before_another_may_win(bed: &Bed) {
    let lease = Duration::from_millis(500);
    for part in [0.85, 0.98, 1.0, 1.15] {
        // Asks often, and is connected: it is at the door as soon as the nodes are heard again.
        let other = bed.build(bed.builder().answer_timeout(Duration::from_millis(100)));
        eventually("connected", async || other.is_locked(NAME).await.ok()).await;
        let ours = bed.locker();
        let guard = within("a free lock", ours.lock(NAME).lease(lease)).await.expect("free");
        bed.silence();
        let winner = tokio::spawn({
            let other = other.clone();
            async move { win(&other).await }
        });
        tokio::time::sleep(lease.mul_f64(part)).await;
        bed.hear();
        let lost = tokio::select! {
            won = winner => {
                let told = guard.check();
                let won = won.expect("no panic");
                assert!(told.is_err(), "at {part} of the lease two hold: {guard:?} and {won:?}");
                true
            }
            // Renewed in time, or told, but nobody has won yet: no contradiction either way.
            () = tokio::time::sleep(lease) => false,
        };
        if lost {
            let lost = within("the bad news", guard.lost()).await;
            assert!(matches!(lost.why, Loss::WindowShut | Loss::Gone), "{lost:?}");
        }
        drop(guard);
        ours.close().await;
        bed.awaits_no_key(NAME).await;
    }
}

/// Asks again and again, as no node answers for a while.
async fn win(locker: &Locker) -> Guard {
    loop {
        if let Ok(guard) = locker.lock(NAME).lease(LONG).await {
            return guard;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A key that is deleted behind the holder's back is missed at the next renewal, long before the
/// end of the lease.
pub async fn a_deleted_key_is_missed_at_the_next_renewal(bed: &Bed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(SHORT * 2).await.expect("free");
    let watch = guard.watch();
    for node in bed.live().await {
        node.ask::<i64>(&["DEL", NAME]).await;
    }
    let lost = within("the bad news", guard.lost()).await;
    assert_eq!(lost.why, Loss::Gone);
    assert!(watch.check().is_err(), "all who watch know");
    assert!(guard.run(async {}).await.is_err(), "no work without lock");
    let answer = guard.unlock().await;
    assert!(matches!(answer, Err(quorumlock::Error::Lost(_))), "{answer:?}");
}

/// `Guard::run` drops its work before the nodes can give the lock to somebody else, even though no
/// node says anything.
pub async fn work_is_dropped_by_the_end_of_the_window(bed: &Bed) {
    // A tenth for drift leaves the dropping a tenth of a lease: a bound that a loaded machine keeps.
    let (lease, rho) = (Duration::from_millis(1500), 0.1);
    let locker = bed.build(bed.builder().rho(rho));
    let guard = locker.lock(NAME).lease(lease).await.expect("free");
    // A renewal may have been granted up to here, but not after it.
    bed.silence();
    let silent = Stopwatch::start();
    let (work, dropped) = tokio::sync::oneshot::channel::<()>();
    let outcome = within(
        "the end of the window",
        guard.run(async move {
            let _work = work;
            std::future::pending::<()>().await;
        }),
    )
    .await;
    let elapsed = silent.elapsed();
    assert!(matches!(outcome, Err(ref lost) if lost.why == Loss::WindowShut), "{outcome:?}");
    assert!(within("its drop", dropped).await.is_err(), "dropped, not finished");
    assert!(elapsed <= lease, "the work ran for {elapsed:?} into somebody else's lease");
    bed.hear();
}

/// Work that ends in time is not disturbed.
pub async fn work_that_ends_in_time_gives_its_result(bed: &Bed) {
    let guard = bed.locker().lock(NAME).lease(SHORT).await.expect("free");
    let result = guard.run(async {
        tokio::time::sleep(SHORT * 2).await;
        7
    });
    assert_eq!(within("the work", result).await.expect("renewed meanwhile"), 7);
    guard.unlock().await.expect("unlocked");
}
