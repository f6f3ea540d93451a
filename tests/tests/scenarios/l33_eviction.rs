//! L33: memory is full, and the node evicts the lock's key, which has a time to live
//! (`SAFETY.md` H14).
//!
//! Plain Redlock: both hold. Strict admission: nodes with an evicting policy are refused when a
//! locker connects, by the name of the setting. (A policy that is changed later is seen by new
//! connections only.)

use quorumlock::{Error, NodeProblem};
use quorumlock_lab::servers::{ServerOptions, for_test};
use quorumlock_tests::{Plain, within};

use crate::ground::{Ground, NAME, Redlock, STRUCK, Strict, builder};

#[tokio::test]
async fn in_plain_redlock_both_hold() {
    let Some(ground) = Ground::start(Redlock, &evicting()).await else { return };
    let held = ground.hold().await;
    fill_until_evicted(&held.ground.plain(STRUCK).await).await;
    drop(held.is_violated().await);
}

#[tokio::test]
async fn under_strict_admission_such_nodes_are_refused_by_the_name_of_the_setting() {
    let Some(servers) = for_test(3, &evicting()) else { return };
    let locker = builder(Strict).quorum(servers.urls()).expect("good URLs");
    let refused = within("an answer", locker.try_lock(NAME)).await;
    let Err(Error::Refused(why)) = refused else { panic!("not refused: {refused:?}") };
    for node in &why.nodes {
        let NodeProblem::Unfit(unfit) = &node.problem else { panic!("{why:?}") };
        assert_eq!((unfit.what, unfit.found.as_str()), ("maxmemory-policy", "volatile-lru"));
    }
}

fn evicting() -> ServerOptions {
    let args = ["--maxmemory", "16mb", "--maxmemory-policy", "volatile-lru"];
    ServerOptions { args: args.map(str::to_owned).to_vec(), ..Default::default() }
}

/// What fills it has no time to live and is never evicted; it makes room again at the end.
async fn fill_until_evicted(node: &Plain) {
    let ballast = "x".repeat(100_000);
    let mut pieces = 0;
    while node.exists(NAME).await {
        // The last one may find no room even so.
        let _ = node.send::<String>(&["SET", &format!("ballast:{pieces}"), &ballast]).await;
        pieces += 1;
        assert!(pieces < 1_000, "not evicted");
    }
    for piece in 0..pieces {
        node.ask::<bool>(&["DEL", &format!("ballast:{piece}")]).await;
    }
}
