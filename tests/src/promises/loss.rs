//! A lock can be lost, and its holder is told before another may win (SAFETY.md G5).

use std::time::Duration;

use quorumlock::{Guard, Locker, LossReason};

use super::{LONG_LEASE, NAME, RENEWED_LEASE, SHORT_LEASE};
use crate::{Stopwatch, Testbed, eventually, within};

/// The whole process of the holder is stopped, including its watchdog, and another client gets the
/// lock. When the process resumes, the holder first learns that it holds nothing; and its late
/// requests to the nodes do not harm the new holder.
pub async fn a_paused_holder_is_told_when_it_wakes(bed: &Testbed) {
    // A loaded machine renews it until the process is stopped.
    let mut holder = bed.holder(NAME, RENEWED_LEASE).await;
    assert!(holder.believes().await);
    holder.pause();
    let locker = bed.locker();
    let guard = within("its end", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    holder.resume();
    assert!(!holder.believes().await, "two holders: {guard:?} and the one that was paused");
    assert!(!holder.unlock().await, "it unlocked what it did not hold");
    assert!(
        locker.mutex(NAME).is_locked().await.expect("an answer"),
        "a late release took the lock away"
    );
    guard.check().expect("still held");
    guard.unlock().await.expect("still held");
}

/// No node answers, and then all answer again at various instants around the end of the lease. If
/// another client wins, the holder already knows of its loss.
pub async fn a_holder_is_told_before_another_may_win(bed: &Testbed) {
    let lease = Duration::from_millis(500);
    for part in [0.85, 0.98, 1.0, 1.15] {
        // This locker asks often and is connected, so it asks as soon as the nodes answer again.
        let other = bed.build(bed.builder().answer_timeout(Duration::from_millis(100)));
        eventually("connected", async || other.mutex(NAME).is_locked().await.ok()).await;
        let ours = bed.locker();
        let guard = within("a free lock", ours.lock(NAME).lease(lease)).await.expect("free");
        bed.pause_all();
        let winner = tokio::spawn({
            let other = other.clone();
            async move { win(&other).await }
        });
        tokio::time::sleep(lease.mul_f64(part)).await;
        bed.resume_all();
        let lost = tokio::select! {
            won = winner => {
                let told = guard.check();
                let won = won.expect("no panic");
                assert!(told.is_err(), "at {part} of the lease two hold: {guard:?} and {won:?}");
                true
            }
            // The lease was renewed in time, or the holder was told and no other client has won
            // yet: both are allowed.
            () = tokio::time::sleep(lease) => false,
        };
        if lost {
            let lost = within("the loss", guard.lost()).await;
            assert!(matches!(lost.why, LossReason::WindowShut | LossReason::Gone), "{lost:?}");
        }
        drop(guard);
        ours.close().await;
        bed.awaits_no_key(NAME).await;
    }
}

/// Asks again and again, because no node answers for a while.
async fn win(locker: &Locker) -> Guard {
    loop {
        if let Ok(guard) = locker.lock(NAME).lease(LONG_LEASE).await {
            return guard;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The holder notices at its next renewal that its key was deleted, long before the end of the
/// lease.
pub async fn a_deleted_key_is_missed_at_the_next_renewal(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(SHORT_LEASE * 2).await.expect("free");
    let view = guard.view();
    for node in bed.live().await {
        node.ask::<i64>(&["DEL", NAME]).await;
    }
    let lost = within("the loss", guard.lost()).await;
    assert_eq!(lost.why, LossReason::Gone);
    assert!(view.check().is_err(), "all views know");
    assert!(guard.run(async {}).await.is_err(), "no work without lock");
    let answer = guard.unlock().await;
    assert!(matches!(answer, Err(quorumlock::Error::Lost(_))), "{answer:?}");
}

/// `Guard::run` drops its work before the nodes can grant the lock to another client, even if no
/// node answers.
pub async fn work_is_dropped_by_the_end_of_the_window(bed: &Testbed) {
    // A drift bound of 10 % leaves 10 % of the lease for dropping the work, which is enough on a
    // loaded machine.
    let (lease, max_clock_drift) = (Duration::from_millis(1500), 0.1);
    let locker = bed.build(bed.builder().max_clock_drift(max_clock_drift));
    let guard = locker.lock(NAME).lease(lease).await.expect("free");
    // Nodes may have granted a renewal up to here, but not after this.
    bed.pause_all();
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
    assert!(matches!(outcome, Err(ref lost) if lost.why == LossReason::WindowShut), "{outcome:?}");
    assert!(within("its drop", dropped).await.is_err(), "dropped, not finished");
    assert!(elapsed <= lease, "the work ran for {elapsed:?} into somebody else's lease");
    bed.resume_all();
}

/// `Guard::run` does not disturb work that ends in time.
pub async fn work_that_ends_in_time_gives_its_result(bed: &Testbed) {
    let guard = bed.locker().lock(NAME).lease(SHORT_LEASE).await.expect("free");
    let result = guard.run(async {
        tokio::time::sleep(SHORT_LEASE * 2).await;
        7
    });
    assert_eq!(within("the work", result).await.expect("renewed meanwhile"), 7);
    guard.unlock().await.expect("unlocked");
}
