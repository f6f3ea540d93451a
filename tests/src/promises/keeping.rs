//! How long a lease lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::LossReason;

use super::{NAME, RENEWED_LEASE};
use crate::testbed::in_a_runtime;
use crate::{Stopwatch, Testbed, within};

/// `hold_at_most` ends a hold without renewal: the holder is told, and the next client gets the
/// lock. A stuck worker therefore does not keep its lock forever (SAFETY.md H21).
pub async fn a_hold_limit_ends_the_lease_without_renewal(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let limit = Duration::from_millis(600);
    let held = Stopwatch::start();
    let guard = ours.lock(NAME).hold_at_most(limit).await.expect("free");
    for node in bed.live().await {
        // Some nodes may not hold the lock: the acquisition does not wait for stragglers.
        assert!(node.pttl(NAME).await <= 600, "the nodes keep it longer than its limit");
    }
    assert!(guard.valid_for() <= limit);
    let lost = within("its limit", guard.lost()).await;
    assert!(matches!(lost.why, LossReason::HoldLimit | LossReason::WindowShut), "{lost:?}");
    // The hold lasts for the limit, less the allowance for drift and granularity.
    assert!(held.elapsed() >= limit.mul_f64(0.9), "{:?}", held.elapsed());
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
    assert!(guard.check().is_err());
}

/// Renewal extends a hold up to a limit longer than the lease, and not beyond it.
pub async fn a_long_hold_is_renewed_up_to_its_limit(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let (lease, limit) = (Duration::from_millis(600), Duration::from_millis(1500));
    let held = Stopwatch::start();
    let guard = ours.lock(NAME).lease(lease).hold_at_most(limit).await.expect("free");
    let next = tokio::spawn(async move { other.lock(NAME).await });
    let lost = within("its limit", guard.lost()).await;
    assert!(matches!(lost.why, LossReason::HoldLimit | LossReason::WindowShut), "{lost:?}");
    assert!(held.elapsed() > lease, "it was not renewed: {:?}", held.elapsed());
    drop(within("a free lock", next).await.expect("no panic").expect("free"));
    assert!(guard.check().is_err());
}

/// The runtime of the holder is blocked for two leases: the watchdog has a thread of its own.
pub async fn a_blocked_runtime_loses_no_lock(bed: &Testbed) {
    let lease = RENEWED_LEASE;
    let (ours, other) = (bed.locker(), bed.locker());
    let blocked = Arc::new(AtomicBool::new(false));
    let holder = std::thread::spawn({
        let blocked = Arc::clone(&blocked);
        move || {
            in_a_runtime(async {
                let guard = ours.lock(NAME).lease(lease).await.expect("free");
                blocked.store(true, Ordering::SeqCst);
                std::thread::sleep(lease * 2);
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
        // The runtime was blocked before and after the attempt, so also during it.
        assert!(taken.is_none() || !blocked.load(Ordering::SeqCst), "taken from its holder");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let joined = tokio::task::spawn_blocking(|| holder.join()).await.expect("joined");
    assert!(joined.is_ok(), "the holder lost its lock");
}
