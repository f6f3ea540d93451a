//! A node is a replica of another node of the same quorum for a moment, so that it has that node's
//! data, while its process and its connections live on (`SAFETY.md` H13). The lab's L21 has the other
//! ways to lose data, `FLUSHALL` and `SWAPDB`.
//!
//! Plain Redlock: both hold. Strict admission: each vote is checked together with the admission
//! record, so the very next request is refused; a check at connect would see nothing.

use quorumlock::Admission;
use quorumlock_testbed::servers::ServerOptions;
use quorumlock_tests::{Plain, eventually};

use crate::setup::{FAULTY, Held, NAME, Redlock, ScenarioSetup, Strict};

#[tokio::test]
async fn in_plain_redlock_both_hold() {
    let Some(held) = strike(Redlock).await else { return };
    held.is_violated().await;
}

#[tokio::test]
async fn under_strict_admission_it_is_noticed() {
    let Some(held) = strike(Strict).await else { return };
    held.is_safe().await;
}

/// The third node has an admission record but not the lock.
async fn strike(mode: Admission) -> Option<Held> {
    let held = ScenarioSetup::start(mode, &ServerOptions::default()).await?.hold().await;
    let node = held.setup.plain(FAULTY).await;
    let run = run_id(&node).await;
    resynchronise(&held.setup, &node).await;
    assert!(!node.exists(NAME).await, "forgotten");
    assert_eq!(run_id(&node).await, run, "the same run, on the same connection");
    Some(held)
}

async fn resynchronise(setup: &ScenarioSetup, node: &Plain) {
    let source = setup.plain(2).await;
    let port = setup.servers[2].addr().expect("ours").port().to_string();
    node.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await;
    awaits_replication(node, "master_link_status:up").await;
    node.ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    awaits_replication(&source, "connected_slaves:0").await;
    if setup.mode == Strict {
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
