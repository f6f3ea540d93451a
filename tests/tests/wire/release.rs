//! What an unlock tells is what a majority of the nodes say.

use quorumlock::{Admission, Error, Locker, Loss};
use quorumlock_lab::servers::{self, ServerOptions};
use quorumlock_tests::{Plain, eventually, within};

use crate::LONG;

/// It was told that it still held a lock that two of three nodes had lost, if one of these answered
/// last: a forced unlock while the third node was topped up.
#[tokio::test]
async fn an_unlock_waits_for_the_node_that_decides() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let builder = Locker::builder().admission(Admission::Redlock).answer_timeout(LONG);
    let locker = builder.quorum(servers.urls()).expect("a good configuration");
    let mut plain = Vec::new();
    for url in servers.urls() {
        plain.push(Plain::to(&url).await);
    }
    let guard = within("free", locker.lock("x").lease(LONG)).await.expect("granted");
    for node in &plain {
        eventually("held by all", async || node.exists("x").await.then_some(())).await;
    }
    for forgetful in [0, 2] {
        plain[forgetful].ask::<u32>(&["DEL", "x"]).await;
    }
    servers[2].pause().expect("ours");
    let unlocking = tokio::spawn(guard.unlock());
    eventually("given back", async || (!plain[1].exists("x").await).then_some(())).await;
    servers[2].resume().expect("ours");
    let answer = within("an answer", unlocking).await.expect("no panic");
    let Err(Error::Lost(lost)) = answer else { panic!("{answer:?}") };
    assert_eq!(lost.why, Loss::Gone);
}
