use quorumlock::Servers;
use std::net::SocketAddr;

use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{ServerOptions, for_test};
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::members;

/// A message can reach a waiter that the server does not count: here the waiter's subscription leads to a
/// replica, as behind a proxy. A server undoes a handoff that it counts as unheard, so nothing is handed
/// off to such a waiter.
#[tokio::test]
async fn nothing_is_handed_off_to_a_waiter_whom_the_server_does_not_count() {
    let Some(servers) = for_test(2, &ServerOptions::default()) else { return };
    let addr = |at: usize| -> SocketAddr { servers[at].addr().expect("ours") };
    let (master, copy) = (Plain::to(servers[0].url()).await, Plain::to(servers[1].url()).await);
    copy.ask::<String>(&["REPLICAOF", "127.0.0.1", &addr(0).port().to_string()]).await;
    eventually("synchronised", async || {
        let info: String = copy.ask(&["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    let proxy = Proxy::to(addr(0));
    let holder = builder().on(Servers::single(servers[0].url())).expect("a good URL");
    let waiter = builder().on(Servers::single(proxy.url())).expect("a good URL");
    // Its requests go to the master, and its subscription to the replica.
    drop(within("a free lock", waiter.lock("before")).await.expect("free"));
    proxy.lead_new_to(addr(1));
    for round in 0..8 {
        let name = format!("x{round}");
        let guard = within("a free lock", holder.lock(&name)).await.expect("free");
        let waiting = tokio::spawn(waiter.lock(&name).into_future());
        let queue = format!("quorumlock:waiters:{{{name}}}");
        eventually("queued", async || master.exists(&queue).await.then_some(())).await;
        let queued: Vec<String> = master.ask(&["ZRANGE", &queue, "0", "-1"]).await;
        assert!(members::offers_nothing(&queued[0]), "offers nothing: {queued:?}");
        guard.unlock().await.expect("held");
        let guard = within("granted", waiting).await.expect("no panic").expect("free");
        assert!(master.exists(&name).await, "what it holds is at the server");
        guard.unlock().await.expect("held");
    }
}
