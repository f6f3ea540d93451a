//! An unlock returns what a majority of the nodes report.

use std::future::IntoFuture as _;

use quorumlock::{Admission, Error, Layout, LossReason, Servers};
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{Plain, builder, eventually, scripts_only, within};

use crate::{LAYOUTS, LONG_LEASE, Node, Quorum, slow_log};

/// A script releases where the server has no `DELIFEQ`, or does not allow it.
#[tokio::test]
async fn where_nobody_waits_a_lean_script_deletes_only_what_is_ours() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    // Older servers do not know the command, so an error is ignored.
    let _: Option<String> = plain.send(&["ACL", "SETUSER", "default", "-delifeq"]).await.ok();
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    plain.ask::<String>(&["SLOWLOG", "RESET"]).await;
    guard.unlock().await.expect("held");
    assert!(!plain.exists("x").await);
    let sent = slow_log(&plain).await;
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]).await;
    let release = sent.iter().find(|command| command[0] == "EVALSHA").expect("a script");
    assert_eq!(release[2..4], ["1", "x"], "a name, and nothing that wakes: {release:?}");
    let looks = |command: &Vec<String>| *command == ["EXISTS", "quorumlock:waiters:{x}"];
    assert!(sent.iter().any(looks), "it looks whether somebody waits: {sent:?}");

    // A copy of the release does no harm.
    let next = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    let copy: Vec<_> = release.iter().map(String::as_str).collect();
    assert_eq!(plain.ask::<i64>(&copy).await, 0);
    let holder = locker.mutex("x").holder().await.expect("an answer").expect("held");
    assert!(holder.has(next.nonce()), "{holder:?}");

    // A waiter is notified, or receives the lock, as with the full release script.
    let other = builder()
        .layout(Layout::Redlock)
        .on(Servers::single(node.server[0].url()))
        .expect("a good URL");
    let waiting = tokio::spawn(other.lock("x").lease(LONG_LEASE).into_future());
    let queue = async || plain.exists("quorumlock:waiters:{x}").await.then_some(());
    eventually("in line", queue).await;
    next.unlock().await.expect("held");
    drop(within("its turn", waiting).await.expect("no panic").expect("granted"));
}

/// The locker loads the lean script again if the server's scripts were flushed.
#[tokio::test]
async fn a_lean_script_that_was_flushed_is_loaded_again() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let _: Option<String> = plain.send(&["ACL", "SETUSER", "default", "-delifeq"]).await.ok();
    for flush in [true, true, false] {
        let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        if flush {
            plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        }
        within("an answer", guard.unlock()).await.expect("held");
        assert!(!plain.exists("x").await);
    }
    let scripts = node.calls("evalsha").await;
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    guard.unlock().await.expect("held");
    let took = usize::from(scripts_only()) + 1;
    assert_eq!(node.calls("evalsha").await, scripts + took, "it is known");
}

/// A forced unlock while the third node is topped up leaves the lock on one node of three. The
/// unlock must report the loss also if one of the two nodes without the lock answers last.
#[tokio::test]
async fn an_unlock_waits_for_the_node_that_decides() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let builder = builder().admission(Admission::Redlock).answer_timeout(LONG_LEASE);
    let locker = builder.on(Servers::quorum(servers.urls())).expect("a good configuration");
    let mut plain = Vec::new();
    for url in servers.urls() {
        plain.push(Plain::to(&url).await);
    }
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
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
    assert_eq!(lost.why, LossReason::Gone);
}

/// The process may end when its call has failed: what a minority granted would stay for a lease.
#[tokio::test]
async fn what_nodes_granted_to_a_call_that_fails_is_released_before_it_fails() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        // Its connections are up.
        within("free", locker.lock("x")).await.expect("granted").unlock().await.expect("held");
        quorum.servers.iter().skip(1).for_each(|server| server.kill().expect("ours"));
        let failed = within("an answer", locker.try_lock("x")).await.expect_err("one of three");
        assert!(!plain[0].exists_now("x"), "{layout:?}: {failed}");
    }
}
