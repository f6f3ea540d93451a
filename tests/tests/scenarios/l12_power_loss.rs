//! L12: the power fails, and a node comes back with its append-only file but for the last moments
//! (`SAFETY.md` H10).
//!
//! Plain Redlock: both hold, and nothing but their clocks orders their fencing tokens, for the lost
//! tail had the grant and its mark (A7). Strict admission: the record is older than the tail and
//! survives, but it names another run, and the node counts for nothing.

use std::fs::OpenOptions;
use std::path::PathBuf;

use quorumlock::Admission;
use quorumlock_lab::servers::{Server, ServerOptions};
use quorumlock_tests::mark_key;

use crate::ground::{Ground, Held, NAME, Redlock, STRUCK, Strict};

#[tokio::test]
async fn in_plain_redlock_both_hold_and_only_clocks_order_their_tokens() {
    let Some(held) = strike(Redlock).await else { return };
    held.marks_are_lost().await;
    drop(held.is_violated().await);
}

#[tokio::test]
async fn under_strict_admission_the_tail_is_not_missed() {
    let Some(held) = strike(Strict).await else { return };
    // The rival's token is larger, though the struck node has forgotten the first one.
    drop(held.is_safe().await);
}

async fn strike(mode: Admission) -> Option<Held> {
    let everysec = ["--appendfsync", "everysec"].map(str::to_owned).to_vec();
    let options = ServerOptions { appendonly: true, args: everysec, ..Default::default() };
    let ground = Ground::start(mode, &options).await?;
    let file = append_only_file(&ground.servers[STRUCK]);
    let on_disk = file.metadata().expect("a file").len();
    let held = ground.hold().await;

    // What a process writes before it dies is safe with the kernel: only power loss takes it.
    let node = &held.ground.servers[STRUCK];
    node.kill().expect("ours");
    assert!(file.metadata().expect("a file").len() > on_disk, "the grant was written");
    let tail = OpenOptions::new().write(true).open(&file).expect("ours");
    tail.set_len(on_disk).expect("ours");
    node.restart().expect("ours");

    let plain = held.ground.plain(STRUCK).await;
    assert!(!plain.exists(NAME).await, "the grant is lost");
    assert!(plain.exists(mark_key(NAME)).await, "what is older is not");
    Some(held)
}

fn append_only_file(server: &Server) -> PathBuf {
    let dir = server.dir().expect("ours").join("appendonlydir");
    let files = dir.read_dir().expect("it has one").map(|entry| entry.expect("an entry").path());
    let mut increments = files.filter(|file| file.to_string_lossy().ends_with(".incr.aof"));
    increments.next().expect("one that is written to")
}
