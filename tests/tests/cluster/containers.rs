//! A partition: a master is cut off from the other members and from the programs.

use std::time::Duration;

use quorumlock::{Locker, Servers};
use quorumlock_testbed::containers;
use quorumlock_tests::{Plain, builder, granted, within};

use crate::{MASTERS, Member, copied, form, name_in, slots_of};

#[tokio::test(flavor = "multi_thread")]
async fn locks_go_on_when_a_master_is_partitioned_and_when_it_is_back() {
    // The first master has a replica.
    let Some(nodes) = containers::members_for_test(MASTERS + 1).await else { return };
    let mut members = Vec::new();
    for node in &nodes {
        let (plain, host) = (Plain::to(&node.ip_url()).await, node.ip_addr().ip().to_string());
        members.push(Member { plain, host, port: 6_379, bus_port: 16_379 });
    }
    form(&members).await;
    let locker =
        || -> Locker { builder().on(Servers::cluster(nodes.ip_urls())).expect("good URLs") };
    let (holder, other) = (locker(), locker());
    let [first, last] = slots_of(0);
    let (name, free) = (name_in(first), name_in(last));
    let lease = Duration::from_secs(10);
    let guard = within("a free lock", holder.lock(&name).lease(lease)).await.expect("free");
    copied(&members[MASTERS].plain, &name).await;
    nodes[0].disconnect().await.expect("the engine does it");
    drop(granted(&other, &free).await);
    assert_eq!(guard.check(), Ok(()));
    // The old master is back, and follows the new one.
    nodes[0].reconnect().await.expect("the engine does it");
    drop(granted(&other, &free).await);
    assert!(other.try_lock(&name).await.expect("it answers").is_none(), "two holders");
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    drop(within("a free lock", other.lock(&name)).await.expect("free"));
}
