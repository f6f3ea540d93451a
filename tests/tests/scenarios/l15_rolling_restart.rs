//! L15: all nodes are restarted, empty, one after the other.
//!
//! Plain Redlock: after the second node both hold until the holder's next renewal, with a pause
//! between the restarts or without. Strict admission: without a pause nothing can be locked for the
//! longest lease; with a pause of more than that nobody notices anything: each node takes its
//! share of the held lock again before the next one forgets.

use quorumlock::{Admission, Guard, Locker};
use quorumlock_lab::servers::{ServerOptions, Servers};
use quorumlock_tests::{Plain, Stopwatch, eventually, within};

use crate::ground::{
    LEASE, LONGEST, NAME, Redlock, Strict, assert_both_hold, builder, granted, refused, succession,
    voters,
};

#[tokio::test]
async fn in_plain_redlock_both_hold_when_the_restarts_follow_each_other() {
    let Some((servers, locker)) = start(Redlock).await else { return };
    let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
    is_held_everywhere(&servers).await;
    restart(&servers, 0);
    restart(&servers, 1);
    let second = granted(&another(Redlock, &servers)).await;
    assert_both_hold(&guard, &second);
}

#[tokio::test]
async fn in_plain_redlock_both_hold_when_a_renewal_comes_between_the_restarts() {
    let Some((servers, locker)) = start(Redlock).await else { return };
    // The holder learns of the second restart a third of this lease after the renewal.
    let guard = within("a free lock", locker.lock(NAME).lease(LEASE * 4)).await.expect("free");
    is_held_everywhere(&servers).await;
    restart(&servers, 0);
    renewed(&guard).await;
    restart(&servers, 1);
    let second = granted(&another(Redlock, &servers)).await;
    assert_both_hold(&guard, &second);
}

#[tokio::test]
async fn under_strict_admission_hasty_restarts_stop_everything_for_the_longest_lease() {
    let Some((servers, locker)) = start(Strict).await else { return };
    let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
    restart(&servers, 0);
    let since = Stopwatch::start();
    restart(&servers, 1);
    restart(&servers, 2);
    let rival = another(Strict, &servers);
    refused(&rival, NAME).await;
    drop(succession(&guard, &rival).await);
    assert!(since.elapsed() >= LONGEST, "admitted after {:?}", since.elapsed());
}

#[tokio::test]
async fn under_strict_admission_patient_restarts_stop_nothing() {
    let Some((servers, locker)) = start(Strict).await else { return };
    let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
    let rival = another(Strict, &servers);
    let mut last = within("free", rival.lock("another")).await.expect("free").fence();
    for node in 0..3 {
        restart(&servers, node);
        let since = Stopwatch::start();
        let plain = Plain::to(servers[node].url()).await;
        let mut locked_without_it = false;
        eventually("the node votes again", async || {
            if let Some(next) = rival.try_lock(NAME).await.ok().flatten() {
                assert!(guard.check().is_err(), "two holders: {guard:?} and {next:?}");
            }
            // The other two go on; only a connection that breaks may cost an attempt.
            let other = rival.try_lock("another").await.ok()??;
            assert!(other.fence() > last, "{} after {last}", other.fence());
            last = other.fence();
            locked_without_it |= since.elapsed() < LONGEST;
            plain.exists("another").await.then_some(())
        })
        .await;
        eventually("the lock is on this node again", async || {
            guard.check().expect("held by the others");
            plain.exists(NAME).await.then_some(())
        })
        .await;
        assert!(locked_without_it, "two of three were admitted all the time");
        assert!(since.elapsed() >= LONGEST, "admitted after {:?}", since.elapsed());
        assert_eq!(guard.check(), Ok(()), "held by a majority all the time");
    }
    guard.unlock().await.expect("held to the end");
}

async fn start(mode: Admission) -> Option<(Servers, Locker)> {
    let servers = voters(mode, 3, &ServerOptions::default()).await?;
    let locker = another(mode, &servers);
    Some((servers, locker))
}

fn another(mode: Admission, servers: &Servers) -> Locker {
    builder(mode).quorum(servers.urls()).expect("good URLs")
}

fn restart(servers: &Servers, node: usize) {
    servers[node].restart_empty().expect("ours");
}

/// A request that is not written yet when its node restarts takes the lock there afterwards.
async fn is_held_everywhere(servers: &Servers) {
    for server in servers.iter() {
        let plain = Plain::to(server.url()).await;
        eventually("held", async || plain.exists(NAME).await.then_some(())).await;
    }
}

/// Waits for the guard's next renewal.
async fn renewed(guard: &Guard) {
    let mut left = guard.valid_for();
    eventually("a renewal", async || {
        let before = std::mem::replace(&mut left, guard.valid_for());
        (left > before).then_some(())
    })
    .await;
}
