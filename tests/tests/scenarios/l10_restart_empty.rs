//! L10: one node of the holder's bare majority is killed and starts again, empty, at once
//! (`SAFETY.md` H9).
//!
//! Plain Redlock: the node votes again, the rival finds a majority, both hold. Strict admission: it
//! counts for nothing; the holder loses its lock, since a bare majority is none any more.

use quorumlock::Admission;
use quorumlock_lab::servers::ServerOptions;
use quorumlock_tests::within;

use crate::ground::{Ground, Held, NAME, Redlock, STRUCK, Strict};

#[tokio::test]
async fn in_plain_redlock_both_hold() {
    let Some(held) = strike(Redlock).await else { return };
    let second = held.is_violated().await;
    // The marks are gone with everything else: the token is larger by the clock, as both are on one machine.
    assert!(second.fence() > held.guard.fence());
}

#[tokio::test]
async fn under_strict_admission_the_holder_is_told_before_the_rival_gets_in() {
    let Some(held) = strike(Strict).await else { return };
    drop(held.is_safe().await);
    within("told", held.guard.lost()).await;
}

async fn strike(mode: Admission) -> Option<Held> {
    let held = Ground::start(mode, &ServerOptions::default()).await?.hold().await;
    held.ground.servers[STRUCK].restart_empty().expect("ours");
    assert!(!held.ground.plain(STRUCK).await.exists(NAME).await);
    Some(held)
}
