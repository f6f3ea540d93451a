//! L21: a node's data is gone or exchanged while it lives, and so do its connections: `FLUSHALL`,
//! `SWAPDB`, and a moment as the replica of another node of the same quorum (`SAFETY.md` H13).
//!
//! Plain Redlock: both hold. Strict admission: each vote is checked together with the record, so
//! that the very next request is refused; a check at connect would see nothing.

use quorumlock::Admission;
use quorumlock_lab::servers::ServerOptions;
use quorumlock_tests::{Plain, eventually};

use crate::ground::{Ground, Held, NAME, Redlock, STRUCK, Strict};

#[tokio::test]
async fn in_plain_redlock_both_hold_after_a_flush() {
    let Some(held) = strike(Redlock, Loss::Flush).await else { return };
    drop(held.is_violated().await);
}

#[tokio::test]
async fn in_plain_redlock_both_hold_after_an_exchange_of_databases() {
    let Some(held) = strike(Redlock, Loss::Swap).await else { return };
    drop(held.is_violated().await);
}

#[tokio::test]
async fn in_plain_redlock_both_hold_after_a_full_resynchronisation() {
    let Some(held) = strike(Redlock, Loss::Resync).await else { return };
    drop(held.is_violated().await);
}

#[tokio::test]
async fn under_strict_admission_a_flush_is_noticed() {
    let Some(held) = strike(Strict, Loss::Flush).await else { return };
    drop(held.is_safe().await);
}

#[tokio::test]
async fn under_strict_admission_an_exchange_of_databases_is_noticed() {
    let Some(held) = strike(Strict, Loss::Swap).await else { return };
    drop(held.is_safe().await);
}

#[tokio::test]
async fn under_strict_admission_a_full_resynchronisation_is_noticed() {
    let Some(held) = strike(Strict, Loss::Resync).await else { return };
    drop(held.is_safe().await);
}

#[derive(Clone, Copy)]
enum Loss {
    Flush,
    Swap,
    /// From the third node, which has a record too, and not the lock.
    Resync,
}

async fn strike(mode: Admission, loss: Loss) -> Option<Held> {
    let options = ServerOptions {
        args: ["--repl-diskless-sync-delay", "0"].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let held = Ground::start(mode, &options).await?.hold().await;
    let node = held.ground.plain(STRUCK).await;
    let run = run_id(&node).await;
    match loss {
        Loss::Flush => drop(node.ask::<String>(&["FLUSHALL"]).await),
        Loss::Swap => drop(node.ask::<String>(&["SWAPDB", "0", "1"]).await),
        Loss::Resync => resynchronise(&held.ground, &node).await,
    }
    assert!(!node.exists(NAME).await, "forgotten");
    assert_eq!(run_id(&node).await, run, "the same run, on the same connection");
    Some(held)
}

async fn resynchronise(ground: &Ground, node: &Plain) {
    let source = ground.plain(2).await;
    let port = ground.servers[2].addr().expect("ours").port().to_string();
    node.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await;
    awaits_replication(node, "master_link_status:up").await;
    node.ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    awaits_replication(&source, "connected_slaves:0").await;
    if ground.mode == Strict {
        assert!(node.exists("quorumlock:node").await, "the other node's record");
    }
}

async fn awaits_replication(node: &Plain, state: &str) {
    eventually(state, async || {
        let info: String = node.ask(&["INFO", "replication"]).await;
        info.contains(state).then_some(())
    })
    .await;
}

async fn run_id(node: &Plain) -> String {
    let info: String = node.ask(&["INFO", "server"]).await;
    let line = info.lines().find(|line| line.starts_with("run_id:"));
    line.expect("every server has one").to_owned()
}
