//! All nodes are restarted, empty, one after the other, under strict admission (the lab's L15).
//!
//! Without a pause nothing can be locked for the longest lease. With a longer pause than that no
//! client notices anything: each node grants the held lock again before the next one forgets.

use quorumlock::Locker;
use quorumlock_testbed::servers::{ServerOptions, Servers};
use quorumlock_tests::{Plain, Stopwatch, eventually, within};

use crate::setup::{MAX_LEASE, NAME, ON_ALL, Strict, builder, refused, succession, voters};

#[tokio::test]
async fn hasty_restarts_stop_everything_for_the_longest_lease() {
    let Some((servers, locker)) = start().await else { return };
    let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
    restart(&servers, 0);
    let since = Stopwatch::start();
    restart(&servers, 1);
    restart(&servers, 2);
    let rival = another(&servers);
    refused(&rival, NAME).await;
    drop(succession(&guard, &rival).await);
    assert!(since.elapsed() >= MAX_LEASE, "admitted after {:?}", since.elapsed());
}

#[tokio::test]
async fn patient_restarts_stop_nothing() {
    let Some((servers, locker)) = start().await else { return };
    let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
    let rival = another(&servers);
    let mut last = within("free", rival.lock(ON_ALL)).await.expect("free").token();
    for node in 0..3 {
        restart(&servers, node);
        let since = Stopwatch::start();
        let plain = Plain::to(servers[node].url()).await;
        let mut locked_without_it = false;
        eventually("the node votes again", async || {
            if let Some(next) = rival.try_lock(NAME).await.ok().flatten() {
                assert!(guard.check().is_err(), "two holders: {guard:?} and {next:?}");
            }
            // The other two nodes still vote; only a broken connection may cost an attempt.
            let other = rival.try_lock(ON_ALL).await.ok()??;
            assert!(other.token() > last, "{} after {last}", other.token());
            last = other.token();
            locked_without_it |= since.elapsed() < MAX_LEASE;
            plain.exists(ON_ALL[0]).await.then_some(())
        })
        .await;
        eventually("the lock is on this node again", async || {
            guard.check().expect("held by the others");
            plain.exists(NAME).await.then_some(())
        })
        .await;
        assert!(locked_without_it, "two of three were admitted all the time");
        assert!(since.elapsed() >= MAX_LEASE, "admitted after {:?}", since.elapsed());
        assert_eq!(guard.check(), Ok(()), "held by a majority all the time");
    }
    guard.unlock().await.expect("held to the end");
}

async fn start() -> Option<(Servers, Locker)> {
    let servers = voters(Strict, 3, &ServerOptions::default()).await?;
    let locker = another(&servers);
    Some((servers, locker))
}

fn another(servers: &Servers) -> Locker {
    builder(Strict).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs")
}

fn restart(servers: &Servers, node: usize) {
    servers[node].restart_empty().expect("ours");
}
