//! L34: memory is full on all nodes, and nothing may be evicted, while a lock is held
//! (`SAFETY.md` H15).
//!
//! In both modes: renewals and the release need no memory and go on; who asks for a new lock is
//! refused in the servers' own words.

use quorumlock::{Admission, Error, NodeProblem, NodeReport};
use quorumlock_lab::servers::ServerOptions;
use quorumlock_tests::{Stopwatch, eventually, within};

use crate::ground::{LEASE, NAME, Redlock, Strict, builder, voters};

#[tokio::test]
async fn in_plain_redlock_what_is_held_is_kept_and_nothing_new_is_granted() {
    what_is_held_is_kept(Redlock).await;
}

#[tokio::test]
async fn under_strict_admission_what_is_held_is_kept_and_nothing_new_is_granted() {
    what_is_held_is_kept(Strict).await;
}

async fn what_is_held_is_kept(mode: Admission) {
    let Some(servers) = voters(mode, 3, &ServerOptions::default()).await else { return };
    let locker = builder(mode).quorum(servers.urls()).expect("good URLs");
    let guard = within("free", locker.lock(NAME).lease(LEASE)).await.expect("free");
    let full = Stopwatch::start();
    let mut nodes = Vec::new();
    for server in &servers {
        let plain = quorumlock_tests::Plain::to(server.url()).await;
        plain.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        nodes.push(plain);
    }

    for name in [NAME, "another"] {
        let newcomer = builder(mode).quorum(servers.urls()).expect("good URLs");
        let refused = within("an answer", newcomer.try_lock(name)).await;
        match refused {
            Ok(None) if name == NAME => {}
            Err(Error::Refused(why)) if name != NAME => {
                let full = |node: &NodeReport| matches!(node.problem, NodeProblem::OutOfMemory(_));
                assert!(why.nodes.iter().all(full), "the servers' reason: {why:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    eventually("it outlives its lease", async || {
        guard.check().expect("renewed");
        (full.elapsed() > LEASE * 2).then_some(())
    })
    .await;
    guard.unlock().await.expect("still held, and given back");
    for node in &nodes {
        eventually("the release", async || (!node.exists(NAME).await).then_some(())).await;
        node.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    }
    drop(within("room again", locker.lock(NAME)).await.expect("free"));
}
