use std::time::Duration;

use quorumlock::{Admission, Servers};
use quorumlock_tests::{Stopwatch, eventually, granted, within};

use crate::{Fleet, MASTER, NAME};

/// How soon after a promotion a lock can be had again.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// All clocks are those of one machine.
const CLOCK_BOUND: Duration = Duration::from_millis(100);

/// Fails the master over by `fail`, with a lock held that was copied. Locks can be had again soon after
/// the promotion, and the holder goes on at the promoted server.
async fn goes_on_after(fail: impl AsyncFnOnce(&Fleet)) {
    let Some(fleet) = Fleet::start(2).await else { return };
    let (locker, other) = (fleet.locker(), fleet.locker());
    let lease = Duration::from_secs(6);
    let guard = within("a free lock", locker.lock(NAME).lease(lease)).await.expect("free");
    eventually("copied", async || {
        for server in &fleet.plain {
            if !server.exists(NAME).await {
                return None;
            }
        }
        Some(())
    })
    .await;
    fail(&fleet).await;
    let promoted = fleet.promoted(0).await;
    let since = Stopwatch::start();
    drop(granted(&other, "another").await);
    let again = since.elapsed();
    assert!(again < AGAIN_WITHIN, "had again only {again:?} after the promotion");
    // It is renewed at the promoted server, where nobody else gets it.
    eventually("the lease is over", async || (since.elapsed() > lease).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
    let there = fleet.anew(promoted).await;
    assert!(there.exists(NAME).await, "renewed there");
    assert!(other.try_lock(NAME).await.expect("it answers").is_none());
    guard.unlock().await.expect("held");
    // On a loaded machine the sentinels may have failed over once more, to a server that copies.
    eventually("released", async || (!there.exists(NAME).await).then_some(())).await;
}

#[tokio::test]
async fn the_locker_goes_on_after_a_failover_that_an_operator_orders() {
    goes_on_after(async |fleet| {
        fleet.sentinel_plain[0].ask::<String>(&["SENTINEL", "FAILOVER", MASTER]).await;
    })
    .await;
}

#[tokio::test]
async fn the_locker_goes_on_after_the_master_is_killed() {
    goes_on_after(async |fleet| fleet.servers[0].kill().expect("ours")).await;
}

#[tokio::test]
async fn the_locker_goes_on_after_the_master_hangs() {
    goes_on_after(async |fleet| fleet.servers[0].pause().expect("ours")).await;
}

/// The lock was not copied: the holder is told of its loss, though the old master would renew it.
#[tokio::test]
async fn a_holder_leaves_an_old_master_that_it_still_reaches() {
    let Some(fleet) = Fleet::start(1).await else { return };
    let (holder, rival) = (fleet.locker(), fleet.locker());
    // Both know the master, and hear the sentinels.
    for locker in [&holder, &rival] {
        drop(within("a free lock", locker.lock("before")).await.expect("free"));
    }
    fleet.servers[1].pause().expect("ours");
    fleet.plain[0].ask::<i64>(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    let lease = Duration::from_secs(15);
    let guard = within("a free lock", holder.lock(NAME).lease(lease)).await.expect("free");
    fleet.servers[0].pause().expect("ours");
    fleet.servers[1].resume().expect("ours");
    fleet.promoted(0).await;
    let since = Stopwatch::start();
    let rival = granted(&rival, NAME).await;
    // No sentinel has demoted the old master yet: that server would extend the lock.
    fleet.servers[0].resume().expect("ours");
    eventually("the holder is told", async || guard.check().err()).await;
    let told = since.elapsed();
    // By its next renewal, which goes to the new master. The old one would have extended it.
    assert!(told < lease / 2, "told only after {told:?}");
    assert_eq!(rival.check(), Ok(()));
}

/// Without sentinels nobody fails over, and the servers are where they were.
#[tokio::test]
async fn locks_go_on_while_no_sentinel_answers() {
    let Some(fleet) = Fleet::start(1).await else { return };
    let locker = fleet.locker();
    drop(within("a free lock", locker.lock(NAME)).await.expect("free"));
    for sentinel in &fleet.sentinels {
        sentinel.kill().expect("ours");
    }
    // The connections are made anew.
    fleet.plain[0].ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    drop(granted(&locker, NAME).await);
}

/// A waiting caller sees no error, and gets the lock at the promoted server.
/// A promoted server has not proven its memory (docs/PROTOCOL.md ADM7).
#[tokio::test]
async fn a_promoted_server_must_prove_its_memory_first() {
    let Some(fleet) = Fleet::start(1).await else { return };
    let longest = Duration::from_secs(6);
    let locker = || {
        let builder = fleet.builder().admission(Admission::Strict);
        let builder = builder.max_lease(longest).lease(longest).clock_bound(CLOCK_BOUND);
        builder.on(Servers::sentinel(fleet.sentinels.urls(), MASTER)).expect("good URLs")
    };
    let (first, second) = (locker(), locker());
    first.admit_nodes().await.expect("the master answers");
    let guard = granted(&first, NAME).await;
    fleet.servers[0].kill().expect("ours");
    fleet.promoted(0).await;
    let since = Stopwatch::start();
    let other = eventually("granted", async || second.try_lock(NAME).await.ok().flatten()).await;
    assert!(guard.check().is_err(), "{guard:?} and {other:?} are valid at once");
    // The promotion is seen a little later than it happens.
    assert!(since.elapsed() > longest - Duration::from_secs(1), "after {:?}", since.elapsed());
}

#[tokio::test]
async fn a_waiting_caller_sees_no_error() {
    let Some(fleet) = Fleet::start(1).await else { return };
    let (holder, other) = (fleet.locker(), fleet.locker());
    let guard = within("a free lock", holder.lock(NAME)).await.expect("free");
    eventually("copied", async || fleet.plain[1].exists(NAME).await.then_some(())).await;
    let waiter = tokio::spawn(other.lock(NAME).into_future());
    fleet.sentinel_plain[0].ask::<String>(&["SENTINEL", "FAILOVER", MASTER]).await;
    let promoted = fleet.promoted(0).await;
    eventually("the old master follows", async || {
        (fleet.role(0).await.as_deref() == Some("slave")).then_some(())
    })
    .await;
    eventually("the holder is there", async || holder.mutex(NAME).is_locked().await.ok()).await;
    assert!(!waiter.is_finished());
    guard.unlock().await.expect("held");
    let guard = within("woken", waiter).await.expect("no panic").expect("free");
    assert!(fleet.anew(promoted).await.exists(NAME).await);
    drop(guard);
}
