//! L30, L29: whoever has the gate node dies before it has the others; clients choose different gates.
//!
//! Waiters ask one node first, so that they do not split the votes. That must never keep them out
//! (SAFETY.md d1), nor let two in (d2). The same in both modes.

use std::sync::atomic::{AtomicU64, Ordering};

use quorumlock::Admission;
use quorumlock_lab::servers::{ServerOptions, Servers};
use quorumlock_tests::{Plain, eventually, waiters, within};

use crate::ground::{NAME, builder, in_both, voters};

const NODES: usize = 3;

#[tokio::test]
async fn a_dead_gate_holder_keeps_nobody_out() {
    in_both(async |mode| {
        let Some(servers) = voters(mode, NODES, &ServerOptions::default()).await else { return };
        let [holder, waiter] =
            [(); 2].map(|()| builder(mode).quorum(servers.urls()).expect("good URLs"));
        // One of the three is the gate.
        for gate in 0..NODES {
            let node = Plain::to(servers[gate].url()).await;
            let guard = within("free", holder.lock(NAME)).await.expect("free");
            for server in &servers {
                let plain = Plain::to(server.url()).await;
                eventually("held everywhere", async || plain.exists(NAME).await.then_some(()))
                    .await;
            }
            let waiting = tokio::spawn({
                let waiter = waiter.clone();
                async move { waiter.lock(NAME).await }
            });
            within("it waits", waited_for(&servers)).await;
            // Its lease would last for longer than any test.
            let _: String = node.ask(&["SET", NAME, "a dead client's nonce", "PX", "600000"]).await;
            guard.unlock().await.expect("two of three");
            let next = within("its turn", waiting).await.expect("no panic").expect("two of three");
            next.unlock().await.expect("held");
            let _: u64 = node.ask(&["DEL", NAME]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn clients_with_different_gates_exclude_each_other_and_all_get_in() {
    in_both(async |mode| {
        let Some(servers) = voters(mode, NODES, &ServerOptions::default()).await else { return };
        let count = AtomicU64::new(0);
        let elsewhere = |url: String| url.replace("127.0.0.1", "localhost");
        let urls = [servers.urls(), servers.urls().into_iter().map(elsewhere).collect()];
        let clients = (0..6).map(|client| contend(mode, &urls[client % 2], &count));
        within("everybody's turns", futures::future::join_all(clients)).await;
        assert_eq!(count.load(Ordering::SeqCst), 6 * TURNS, "no update was lost");
    })
    .await;
}

const TURNS: u64 = 10;

/// Reads, lets others run, and writes: without the lock updates would be lost.
async fn contend(mode: Admission, urls: &[String], count: &AtomicU64) {
    let locker = builder(mode).quorum(urls).expect("good URLs");
    for _ in 0..TURNS {
        let guard = locker.lock(NAME).await.expect("all answer");
        let read = count.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        count.store(read + 1, Ordering::SeqCst);
        guard.unlock().await.expect("held");
    }
}

/// Somebody waits for the name at some node.
async fn waited_for(servers: &Servers) {
    let waiters = waiters(NAME);
    loop {
        for server in servers {
            if Plain::to(server.url()).await.exists(&waiters).await {
                return;
            }
        }
    }
}
