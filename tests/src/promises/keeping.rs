//! How long a lease lasts.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::{Error, LossReason, Owner};

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

/// The limit of a locker is that of each hold whose request sets none.
pub async fn a_locker_may_limit_all_its_holds(bed: &Testbed) {
    let limit = Duration::from_millis(600);
    let locker = bed.build(bed.builder().hold_at_most(limit));
    let (owner, long) = (Owner::new(), Duration::from_secs(3_600));
    let own = |name: &str| locker.lock(name).owner(&owner);
    let outer = own("invoice/8").hold_at_most(long).await.expect("free");
    // It shares the hold, which has a limit of its own.
    let inner = own("invoice/8").await.expect("re-entered");
    let limited = locker.lock(NAME).await.expect("free");
    let lost = within("its limit", limited.lost()).await;
    assert!(matches!(lost.why, LossReason::HoldLimit | LossReason::WindowShut), "{lost:?}");
    assert!(outer.is_valid() && inner.is_valid());
    outer.unlock().await.expect("held");
    inner.unlock().await.expect("held");
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

/// `hold_at_least` keeps the lock, and renews it, though the work ends sooner: with an unlock, which waits, with
/// an unlock that is dropped, and with a drop.
pub async fn a_hold_lasts_for_at_least_its_time(bed: &Testbed) {
    let least = RENEWED_LEASE * 2;
    for ending in ["unlock", "dropped unlock", "drop"] {
        let (ours, other) = (bed.locker(), bed.locker());
        let held = Stopwatch::start();
        let guard = ours.lock(NAME).lease(RENEWED_LEASE).hold_at_least(least);
        let guard = within("free", guard).await.expect("granted");
        let next = tokio::spawn(async move { other.lock(NAME).await });
        match ending {
            "drop" => drop(guard),
            "unlock" => {
                guard.unlock().await.expect("held until now");
                assert!(held.elapsed() >= least, "unlocked after {:?}", held.elapsed());
            }
            _ => {
                let pause = Duration::from_millis(10);
                tokio::time::timeout(pause, guard.unlock()).await.expect_err("it waits");
            }
        }
        let taken = ours.try_lock(NAME).await.expect("an answer");
        assert!(taken.is_none() || held.elapsed() >= least, "{ending}: taken by its own process");
        drop(taken);
        drop(within("a free lock", next).await.expect("no panic").expect("granted"));
        assert!(held.elapsed() >= least, "{ending}: taken after {:?}", held.elapsed());
    }
}

/// So does a hold of every other kind, one that its owner entered again, and one of a writer that became a
/// reader.
pub async fn a_hold_of_each_kind_lasts_for_at_least_its_time(bed: &Testbed) {
    let least = RENEWED_LEASE * 2;
    let (ours, other) = (bed.locker(), bed.locker());
    let held = Stopwatch::start();
    let permit = ours.semaphore("permit", 1).acquire().lease(RENEWED_LEASE).hold_at_least(least);
    let reader = ours.rw_lock("reader").read().lease(RENEWED_LEASE).hold_at_least(least);
    let writer = ours.rw_lock("writer").write().lease(RENEWED_LEASE).hold_at_least(least);
    let owner = Owner::new();
    let outer = ours.lock("owner").lease(RENEWED_LEASE).owner(&owner);
    let (permit, reader, writer, outer) = tokio::join!(
        permit.into_future(),
        reader.into_future(),
        writer.into_future(),
        outer.into_future()
    );
    let outer = outer.expect("granted");
    let inner = ours.lock("owner").owner(&owner).hold_at_least(least).await.expect("its own");
    let downgraded = writer.expect("granted").downgrade().await.expect("a reader");
    drop((permit.expect("granted"), reader.expect("granted"), inner, outer, downgraded));

    let check = |what: &str| {
        assert!(held.elapsed() >= least, "{what} is free after {:?}", held.elapsed());
    };
    tokio::join!(
        async {
            drop(within("the permit", other.semaphore("permit", 1).acquire()).await.expect("free"));
            check("the permit");
        },
        async {
            drop(within("the reader's", other.rw_lock("reader").write()).await.expect("free"));
            check("the reader's lock");
        },
        async {
            drop(within("the writer's", other.rw_lock("writer").write()).await.expect("free"));
            check("the writer's lock");
        },
        async {
            drop(within("the owner's", other.lock("owner")).await.expect("free"));
            check("the owner's lock");
        },
    );
}

/// A lock that is lost meanwhile is not kept, and the unlock says so.
pub async fn a_lost_hold_is_kept_no_longer(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let forever = Duration::from_secs(3_600);
    let guard = ours.lock(NAME).lease(RENEWED_LEASE).hold_at_least(forever).await.expect("free");
    let unlocked = tokio::spawn(guard.unlock());
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"), "it was held");
    let told = within("its loss", unlocked).await.expect("no panic");
    assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
    drop(within("a free lock", other.lock(NAME)).await.expect("granted"));
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
