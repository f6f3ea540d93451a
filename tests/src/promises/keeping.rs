//! How long a lease is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::Loss;

use super::NAME;
use crate::bed::in_a_runtime;
use crate::{Bed, Stopwatch, within};

/// `hold_at_most` ends a hold without renewal: the holder is told, the next one gets in. So a
/// worker that is stuck does not keep its lock for ever (SAFETY.md H21).
pub async fn a_hold_limit_ends_the_lease_without_renewal(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let limit = Duration::from_millis(600);
    let held = Stopwatch::start();
    let guard = ours.lock(NAME).hold_at_most(limit).await.expect("free");
    for node in bed.live().await {
        // Less than all nodes may have it: a straggler's answer was not waited for.
        assert!(node.pttl(NAME).await <= 600, "the nodes keep it longer than its limit");
    }
    assert!(guard.valid_for() <= limit);
    let lost = within("its limit", guard.lost()).await;
    assert!(matches!(lost.why, Loss::HoldLimit | Loss::WindowShut), "{lost:?}");
    // As long as it could be, but for the allowance for drift and granularity.
    assert!(held.elapsed() >= limit.mul_f64(0.9), "{:?}", held.elapsed());
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
    assert!(guard.check().is_err());
}

/// A limit longer than the lease is reached by renewal, and not passed.
pub async fn a_long_hold_is_renewed_up_to_its_limit(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let (lease, limit) = (Duration::from_millis(600), Duration::from_millis(1500));
    let held = Stopwatch::start();
    let guard = ours.lock(NAME).lease(lease).hold_at_most(limit).await.expect("free");
    let next = tokio::spawn(async move { other.lock(NAME).await });
    let lost = within("its limit", guard.lost()).await;
    assert!(matches!(lost.why, Loss::HoldLimit | Loss::WindowShut), "{lost:?}");
    assert!(held.elapsed() > lease, "it was not renewed: {:?}", held.elapsed());
    drop(within("a free lock", next).await.expect("no panic").expect("free"));
    assert!(guard.check().is_err());
}

/// The runtime of the holder is blocked for five leases: the watchdog has a thread of its own.
pub async fn a_blocked_runtime_loses_no_lock(bed: &Bed) {
    let lease = Duration::from_millis(600);
    let (ours, other) = (bed.locker(), bed.locker());
    let blocked = Arc::new(AtomicBool::new(false));
    let holder = std::thread::spawn({
        let blocked = Arc::clone(&blocked);
        move || {
            in_a_runtime(async {
                let guard = ours.lock(NAME).lease(lease).await.expect("free");
                blocked.store(true, Ordering::SeqCst);
                std::thread::sleep(lease * 5);
                assert!(guard.check().is_ok(), "{:?}", guard.check());
                assert!(guard.valid_for() > Duration::ZERO);
                blocked.store(false, Ordering::SeqCst);
                guard.unlock().await.expect("unlocked");
            });
        }
    });
    crate::eventually("the runtime is blocked", async || {
        blocked.load(Ordering::SeqCst).then_some(())
    })
    .await;
    while blocked.load(Ordering::SeqCst) {
        let taken = other.try_lock(NAME).await.expect("an answer");
        // Blocked before and after, so in between: it was taken from a blocked holder.
        assert!(taken.is_none() || !blocked.load(Ordering::SeqCst), "taken from its holder");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let joined = tokio::task::spawn_blocking(|| holder.join()).await.expect("joined");
    assert!(joined.is_ok(), "the holder lost its lock");
}
