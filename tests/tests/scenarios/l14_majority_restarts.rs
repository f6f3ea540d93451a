//! L14: a majority of the nodes is killed and starts again, empty.
//!
//! Plain Redlock: the majority votes at once and both hold. Strict admission: nobody gets anything
//! until the longest lease has passed, and by then the holder knows that it has lost.

use quorumlock::Admission;
use quorumlock_lab::servers::ServerOptions;
use quorumlock_tests::Stopwatch;

use crate::ground::{Ground, Held, LONGEST, NAME, Redlock, Strict, refused, succession};

#[tokio::test]
async fn in_plain_redlock_both_hold() {
    let Some((held, _)) = strike(Redlock).await else { return };
    drop(held.is_violated().await);
}

#[tokio::test]
async fn under_strict_admission_nobody_locks_anything_for_the_longest_lease() {
    let Some((held, since)) = strike(Strict).await else { return };
    for name in [NAME, "another"] {
        refused(&held.ground.rival, name).await;
    }
    drop(succession(&held.guard, &held.ground.rival).await);
    assert!(since.elapsed() >= LONGEST, "admitted after {:?}", since.elapsed());
}

async fn strike(mode: Admission) -> Option<(Held, Stopwatch)> {
    let held = Ground::start(mode, &ServerOptions::default()).await?.hold().await;
    let since = Stopwatch::start();
    for node in [1, 2] {
        held.ground.servers[node].restart_empty().expect("ours");
    }
    Some((held, since))
}
