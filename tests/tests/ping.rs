//! `ping` tells why no lock could be granted, by type.

use quorumlock::{Error, Locker, NoMajority, NodeProblem, Servers};
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{eventually, within};

async fn refused(locker: &Locker) -> NoMajority {
    match within("an answer", locker.ping()).await {
        Err(Error::Refused(none)) => none,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn servers_that_nobody_listens_at_are_unreachable() {
    let nowhere = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    for locker in [Locker::single(nowhere[0]), Locker::quorum(nowhere)] {
        let locker = locker.expect("good URLs");
        let error = within("an answer", locker.ping()).await.expect_err("nobody there");
        let Error::Unreachable(none) = &error else { panic!("{error:?}") };
        let dead = |problem: &NodeProblem| matches!(problem, NodeProblem::NotConnected(_));
        assert!(none.nodes.iter().all(|node| dead(&node.problem)), "{error:?}");
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn new_nodes_answer_and_may_not_vote_until_they_are_admitted() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let locker = Locker::quorum(servers.urls()).expect("good URLs");
    let none = refused(&locker).await;
    assert_eq!((none.of, none.needed, none.answered, none.voted), (3, 2, 3, 0));
    assert!(none.nodes.iter().all(|node| node.problem == NodeProblem::New), "{none:?}");
    within("admission", locker.admit_nodes()).await.expect("admitted");
    eventually("they may vote", async || locker.ping().await.ok()).await;
    // Another list: the nodes answer, and refuse this client alone.
    let other = Locker::quorum(&servers.urls()[..2]);
    let none = refused(&other.expect("good URLs")).await;
    let barred = |problem: &NodeProblem| matches!(problem, NodeProblem::OtherMembers { .. });
    assert!(none.nodes.iter().all(|node| barred(&node.problem)), "{none:?}");
}

#[tokio::test]
async fn a_replica_grants_no_locks_and_its_master_is_found() {
    let Some(master) = servers::for_test(1, &ServerOptions::default()) else { return };
    let port = master[0].addr().expect("ours").port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port].map(str::to_owned).to_vec();
    let options = ServerOptions { args, ..Default::default() };
    let Some(replica) = servers::for_test(1, &options) else { return };
    let none = refused(&Locker::single(replica[0].url()).expect("a good URL")).await;
    assert!(matches!(none.nodes[0].problem, NodeProblem::Replica(_)), "{none:?}");
    let urls = [replica[0].url(), master[0].url()];
    let found = Locker::new(Servers::replicated(urls)).expect("good URLs");
    eventually("the master is found", async || found.ping().await.ok()).await;
}
