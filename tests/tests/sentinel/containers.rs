//! A partition: the master is cut off from the sentinels, its replica and the programs.

use std::time::Duration;

use quorumlock::{Locker, Servers};
use quorumlock_testbed::containers;
use quorumlock_testbed::servers::ServerOptions;
use quorumlock_tests::{Plain, builder, eventually, granted, within};

use crate::{MASTER, NAME, SENTINELS, knows_all, monitor};

#[tokio::test(flavor = "multi_thread")]
async fn locks_go_on_when_the_master_is_partitioned_and_when_it_is_back() {
    let Some(mut nodes) = containers::for_test(2).await else { return };
    nodes.start_sentinels(SENTINELS).await.expect("the engine does it");
    let master = nodes[0].ip_addr().ip().to_string();
    let copy = Plain::to(&nodes[1].ip_url()).await;
    copy.ask::<String>(&["REPLICAOF", &master, "6379"]).await;
    let mut sentinels = Vec::new();
    for sentinel in nodes.sentinels() {
        let plain = Plain::to(&sentinel.ip_url()).await;
        monitor(&plain, MASTER, (&master, "6379"), &ServerOptions::default()).await;
        sentinels.push(plain);
    }
    knows_all(&sentinels, 1).await;

    let urls: Vec<_> = nodes.sentinels().iter().map(|sentinel| sentinel.ip_url()).collect();
    let locker =
        || -> Locker { builder().on(Servers::sentinel(&urls, MASTER)).expect("good URLs") };
    let (holder, other) = (locker(), locker());
    let lease = Duration::from_secs(10);
    let guard = within("a free lock", holder.lock(NAME).lease(lease)).await.expect("free");
    eventually("copied", async || copy.exists(NAME).await.then_some(())).await;
    nodes[0].disconnect().await.expect("the engine does it");
    drop(granted(&other, "another").await);
    assert_eq!(guard.check(), Ok(()));
    // The old master is back, and a sentinel makes it a replica of the new one.
    nodes[0].reconnect().await.expect("the engine does it");
    drop(granted(&other, "another").await);
    assert!(other.try_lock(NAME).await.expect("it answers").is_none(), "two holders");
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
}
