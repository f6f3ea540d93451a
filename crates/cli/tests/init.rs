//! `quorumlock init` against real servers.

#![allow(clippy::unwrap_used, reason = "a test may, and so may its helpers")]

mod common;

use common::{Finished, blank_servers, finish, quorumlock};
use quorumlock::Locker;
use serde_json::json;

fn init(urls: &[String], options: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.arg("init").args(options);
    finish(command)
}

#[tokio::test]
async fn init_admits_new_nodes_at_once_and_changes_the_charter() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    let strict = |epoch| Locker::builder().cluster("quorumlock", epoch).quorum(&urls).unwrap();
    assert!(strict(1).try_lock("x").await.is_err(), "nobody vouched for the nodes");
    let admitted = init(&urls, &["--json"]).expect(0).json();
    let expected =
        json!({ "nodes": 3, "cluster": "quorumlock", "epoch": 1, "max_lease_ms": 60_000 });
    assert_eq!(admitted, expected);
    assert!(strict(1).try_lock("x").await.unwrap().is_some());
    // A new epoch: programs of the old one are refused by name.
    init(&urls, &["--epoch", "2"]).expect(0);
    let refused = strict(1).try_lock("y").await.unwrap_err().to_string();
    assert!(refused.contains("epoch is 2, expected 1"), "{refused}");
    assert!(strict(2).try_lock("y").await.unwrap().is_some());
}

#[test]
fn init_needs_a_quorum_and_all_of_its_nodes() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    init(&urls[..1], &[]).expect(64);
    servers[1].kill().unwrap();
    init(&urls, &[]).expect(69);
}
