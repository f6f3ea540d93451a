use quorumlock::Servers;
use std::time::Duration;

use quorumlock_tests::{Plain, Stopwatch, eventually, granted, within};

use crate::{Fleet, MASTERS, copied, name_in, slots_of};

/// How soon after a promotion a lock can be had again: a connection that hangs is given up after a second,
/// other members are asked every 250 ms, and a request to the old master ends after 500 ms.
const AGAIN_WITHIN: Duration = Duration::from_secs(4);

/// The members give up an order that they have not carried out after five seconds.
const ORDER_WITHIN: Duration = Duration::from_secs(6);

/// SLOT5: fails the first master over by `fail`, with a lock held that was copied. Locks can be had again soon
/// after the promotion, the holder goes on at the promoted server, and a waiter gets the lock there.
async fn goes_on_after(fleet: Option<Fleet>, fail: impl AsyncFnOnce(&Fleet)) {
    let Some(fleet) = fleet else { return };
    let locker = fleet.locker();
    let other = fleet.builder().on(Servers::cluster(fleet.servers.urls())).expect("good URLs");
    let lease = Duration::from_secs(9);
    let [first, last] = slots_of(0);
    let (name, free) = (name_in(first), name_in(last));
    let guard = within("a free lock", locker.lock(&name).lease(lease)).await.expect("free");
    let waiter = tokio::spawn(other.lock(&name).into_future());
    copied(&fleet.plain[MASTERS], &name).await;
    fail(&fleet).await;
    eventually("promoted", async || {
        (fleet.master_of(&free, 0).await == Some(MASTERS)).then_some(())
    })
    .await;
    let since = Stopwatch::start();
    drop(granted(&other, &free).await);
    let again = since.elapsed();
    assert!(again < AGAIN_WITHIN, "had again only {again:?} after the promotion");
    eventually("the lease is over", async || (since.elapsed() > lease).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
    let there = Plain::to(fleet.servers[MASTERS].url()).await;
    assert!(there.exists(&name).await, "renewed there");
    if waiter.is_finished() {
        panic!("{:?}", waiter.await);
    }
    guard.unlock().await.expect("held");
    let guard = within("woken", waiter).await.expect("no panic").expect("no error");
    assert!(there.exists(&name).await);
    drop(guard);
    eventually("released", async || (!there.exists(&name).await).then_some(())).await;
}

#[tokio::test]
async fn the_locker_goes_on_after_a_failover_that_an_operator_orders() {
    goes_on_after(Fleet::start().await, async |fleet| {
        for _ in 0..3 {
            fleet.plain[MASTERS].ask::<String>(&["CLUSTER", "FAILOVER"]).await;
            let promoted =
                async || (fleet.master_of(&name_in(0), 0).await == Some(MASTERS)).then_some(());
            let within = tokio::time::timeout(ORDER_WITHIN, eventually("promoted", promoted));
            if within.await.is_ok() {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_locker_goes_on_after_a_master_is_killed() {
    goes_on_after(Fleet::start().await, async |fleet| fleet.servers[0].kill().expect("ours")).await;
}

#[tokio::test]
async fn the_locker_goes_on_after_a_master_of_the_second_kind_is_killed() {
    goes_on_after(Fleet::start_second().await, async |fleet| {
        fleet.servers[0].kill().expect("ours")
    })
    .await;
}

#[tokio::test]
async fn the_locker_goes_on_after_a_master_hangs() {
    goes_on_after(Fleet::start().await, async |fleet| fleet.servers[0].pause().expect("ours"))
        .await;
}

/// SLOT3: a release that the old master did not get goes to the promoted one.
#[tokio::test]
async fn a_release_goes_to_the_promoted_master() {
    let Some(fleet) = Fleet::start().await else { return };
    let locker = fleet.locker();
    let name = name_in(slots_of(0)[0]);
    let guard = within("a free lock", locker.lock(&name)).await.expect("free");
    copied(&fleet.plain[MASTERS], &name).await;
    fleet.servers[0].kill().expect("ours");
    drop(guard);
    eventually("promoted", async || {
        (fleet.master_of(&name, 0).await == Some(MASTERS)).then_some(())
    })
    .await;
    let there = Plain::to(fleet.servers[MASTERS].url()).await;
    eventually("released", async || (!there.exists(&name).await).then_some(())).await;
}
