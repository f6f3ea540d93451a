//! Locks without fencing tokens: what plain libraries offer, and no more.

use quorumlock::fencing::FenceGate;
use quorumlock::{Admission, Builder, FencingToken, Guard, Layout, Locker};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, mark_key, scripts_only, within};

use crate::LONG_LEASE;

#[tokio::test]
async fn they_exclude_wake_up_and_leave_no_mark() {
    for layout in [Layout::Redisson, Layout::Redlock] {
        for nodes in [1, 3] {
            let Some(servers) = servers::for_test(nodes, &ServerOptions::default()) else { return };
            exclude(&servers, layout).await;
            for url in servers.urls() {
                let node = Plain::to(&url).await;
                assert!(!node.exists(mark_key("x")).await, "{layout:?} on {nodes}");
            }
        }
    }
}

async fn exclude(servers: &Servers, layout: Layout) {
    let [one, other] = [(); 2].map(|()| locker(unfenced(layout), servers));
    let guard = within("free", one.lock("x").lease(LONG_LEASE)).await.expect("granted");
    assert_eq!(guard.token(), FencingToken::NONE);
    assert!(within("an answer", other.try_lock("x")).await.expect("all answer").is_none());
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.lock("x").lease(LONG_LEASE).await.expect("granted in the end") }
    });
    // The test cannot see when the task waits; it must get the lock either way.
    tokio::task::yield_now().await;
    guard.unlock().await.expect("held");
    let guard: Guard = within("woken", waiter).await.expect("no panic");
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
}

/// The acquisition is the server's own `SET` command, as a plain Redlock client sends it, and costs
/// nothing else.
#[tokio::test]
async fn in_redlocks_layout_a_free_lock_is_taken_by_set() {
    if scripts_only() {
        return;
    }
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let node = Plain::to(servers[0].url()).await;
    let locker = locker(unfenced(Layout::Redlock), &servers);
    within("connected", locker.ping()).await.expect("an answer");
    node.ask::<String>(&["CONFIG", "RESETSTAT"]).await;
    let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
    let stats: String = node.ask(&["INFO", "commandstats"]).await;
    assert!(stats.contains("cmdstat_set:calls=1"), "{stats}");
    assert!(!stats.contains("cmdstat_evalsha"), "{stats}");
    let left = node.pttl("x").await;
    assert!(left > 0 && left <= 60_000, "{left}");
    guard.unlock().await.expect("held");
    assert!(!node.exists("x").await);
}

/// A waiter waits for a dead holder's lease as long as it lasts: its second attempt is by script,
/// which returns the remaining lease.
#[tokio::test]
async fn who_waits_learns_how_long_the_lease_lasts() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let node = Plain::to(servers[0].url()).await;
    node.ask::<String>(&["SET", "x", "a foreign client that died", "PX", "300"]).await;
    let locker = locker(unfenced(Layout::Redlock), &servers);
    // The waiter's own lease is far longer than the foreign holder's remaining lease.
    let guard = within("free soon", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    guard.unlock().await.expect("held");
}

/// In one process the lock goes from task to task, without tokens.
#[tokio::test]
async fn they_are_handed_over_inside_a_process() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let node = Plain::to(servers[0].url()).await;
    let locker = locker(unfenced(Layout::Redlock), &servers);
    let first = locker.lock("x").await.expect("free");
    let heirs = (0..4).map(|_| {
        let locker = locker.clone();
        async move {
            let guard = locker.lock("x").await.expect("handed over");
            assert_eq!((guard.token(), guard.check()), (FencingToken::NONE, Ok(())));
            guard.unlock().await.expect("held");
        }
    });
    let heirs = futures::future::join_all(heirs);
    let begin = async {
        tokio::task::yield_now().await;
        first.unlock().await.expect("held");
    };
    within("all of them", async { futures::join!(heirs, begin) }).await;
    assert!(!node.exists("x").await);
}

#[tokio::test]
async fn no_gate_lets_their_holders_in() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let locker = locker(unfenced(Layout::Redlock), &servers);
    let guard = locker.lock("x").await.expect("free");
    let gate = FenceGate::new(());
    let refused = gate.claim(guard.token()).expect_err("no token");
    assert!(refused.to_string().contains("no fencing token"), "{refused}");
}

fn unfenced(layout: Layout) -> Builder {
    builder().label("").layout(layout).fencing(false)
}

fn locker(builder: Builder, servers: &Servers) -> Locker {
    match &servers.urls()[..] {
        [one] => builder.on(quorumlock::Servers::single(one)).expect("a good URL"),
        several => builder
            .admission(Admission::Redlock)
            .on(quorumlock::Servers::quorum(several))
            .expect("good URLs"),
    }
}
