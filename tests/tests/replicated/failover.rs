//! The master dies and a replica is promoted: the locker continues there.

use quorumlock::Servers;
use std::time::Duration;

use quorumlock_tests::{Proxy, Stopwatch, eventually, granted, within};

use crate::{Fleet, LONG_LEASE, NAME, follow, long_timeouts};

#[tokio::test]
async fn the_locker_goes_on_at_the_promoted_server() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker = fleet.locker();
    let lease = Duration::from_secs(3);
    let guard = within("a free lock", locker.lock("copied").lease(lease)).await.expect("free");
    fleet.copied("copied", 1).await;
    fleet.fail_over(1).await;
    let since = Stopwatch::start();

    let other = granted(&locker, NAME).await;
    assert!(fleet.plain[1].exists(NAME).await);
    other.unlock().await.expect("held");
    // The promoted server renews a lock that was copied.
    eventually("the lease is over", async || (since.elapsed() > lease).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
    assert!(fleet.plain[1].exists("copied").await);
    guard.unlock().await.expect("held");
    assert!(!fleet.plain[1].exists("copied").await);
}

/// A hung master keeps its connections: missing answers, too, make the locker look for another
/// master.
#[tokio::test]
async fn a_hung_master_is_left() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let timeout = Duration::from_millis(500);
    let builder = long_timeouts().answer_timeout(timeout).connect_timeout(timeout);
    let locker = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    drop(within("a free lock", locker.lock("before")).await.expect("free"));
    fleet.servers[0].pause().expect("ours");
    fleet.promote(1).await;
    drop(granted(&locker, NAME).await);
    fleet.servers[0].resume().expect("ours");
}

/// The subscriptions move to the promoted server: no waiter waits for the end of a released lease.
#[tokio::test]
async fn waiters_hear_of_releases_at_the_promoted_server() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (holder, other) = (fleet.locker(), fleet.locker());
    let guard = within("a free lock", holder.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    fleet.copied(NAME, 1).await;
    let waiter = tokio::spawn(other.lock(NAME).lease(LONG_LEASE).into_future());
    let subscribed = async |server: usize| {
        let channels = ["PUBSUB", "NUMSUB", "redisson_lock__channel:{x}"];
        let (_, subscribers): (String, u64) = fleet.plain[server].ask(&channels).await;
        (subscribers > 0).then_some(())
    };
    eventually("it listens", async || subscribed(0).await).await;
    fleet.fail_over(1).await;
    eventually("it listens there", async || subscribed(1).await).await;
    assert!(!waiter.is_finished());
    eventually("the holder is there", async || holder.mutex(NAME).is_locked().await.ok()).await;
    guard.unlock().await.expect("held");
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// A waiter may be subscribed at a demoted master, to which the new one passes its messages on, and which
/// the new one does not count. A release that is undone for want of a subscriber must not reach it.
#[tokio::test]
async fn a_waiter_at_a_demoted_master_is_handed_nothing() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (holder, other) = (fleet.locker(), fleet.locker());
    for round in 0..4 {
        let name = format!("x{round}");
        let (old, new) = (round % 2, (round + 1) % 2);
        let guard = within("a free lock", holder.lock(&name)).await.expect("free");
        let waiter = tokio::spawn(other.lock(&name).into_future());
        let queue = format!("quorumlock:waiters:{{{name}}}");
        eventually("queued, and copied", async || {
            fleet.plain[new].exists(&queue).await.then_some(())
        })
        .await;
        fleet.promote(new).await;
        let port = fleet.port(new);
        follow(&fleet.plain[old], port).await;
        guard.unlock().await.expect("held");
        let guard = within("granted", waiter).await.expect("no panic").expect("no error");
        assert!(fleet.plain[new].exists(&name).await, "what it holds is at the master");
        guard.unlock().await.expect("held");
    }
}

/// One name leads to the old master, which becomes a replica, and later to the promoted server: a
/// waiting caller sees no error.
#[tokio::test]
async fn a_name_that_leads_to_the_promoted_server_is_followed() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let [old, promoted] = [0, 1].map(|at| fleet.servers[at].addr().expect("ours"));
    let name = Proxy::to(old);
    let locker = || long_timeouts().on(Servers::single(name.url())).expect("a good URL");
    let (holder, other) = (locker(), locker());
    let guard = within("a free lock", holder.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    fleet.copied(NAME, 1).await;
    let waiter = tokio::spawn(other.lock(NAME).lease(LONG_LEASE).into_future());
    fleet.promote(1).await;
    fleet.plain[0].ask::<String>(&["REPLICAOF", "127.0.0.1", &promoted.port().to_string()]).await;
    eventually("refused there", async || holder.try_lock("another").await.err()).await;
    assert!(!waiter.is_finished(), "a replica is waited for");
    name.lead_to(promoted);
    eventually("the holder is there", async || holder.mutex(NAME).is_locked().await.ok()).await;
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    let guard = within("woken", waiter).await.expect("no panic").expect("no error");
    assert!(fleet.plain[1].exists(NAME).await);
    drop(guard);
}
