//! Which locks quorumlock does not share: those of Redisson's other lock types, and those of
//! clients that require no proof of memory.

use std::time::Duration;

use quorumlock::{Error, Locker, NodeProblem, Servers};
use quorumlock_tests::builder;

use crate::client::Reply;
use crate::redisson::beside_redisson;
use crate::testbed::{LONG_LEASE, Testbed, comes_after};

beside_redisson! {
    their_read_write_lock_is_named_and_never_forced,
    their_read_lock_is_granted_while_we_hold_the_name,
    their_fair_lock_excludes_ours,
    their_spin_lock_excludes_ours,
}

const NAME: &str = "invoice/7";
const NOW: Duration = Duration::ZERO;

/// A waiter that hears of no release asks again when the lease that it saw would end.
const LEASE: Duration = Duration::from_secs(4);

async fn start(redisson: &str) -> Option<(Testbed, Locker)> {
    let bed = Testbed::start(redisson, "redisson", 1, LEASE).await?;
    let locker =
        builder().lease(LEASE).on(Servers::single(bed.servers[0].url())).expect("a good URL");
    Some((bed, locker))
}

async fn their_read_write_lock_is_named_and_never_forced(redisson: &str) {
    let Some((bed, locker)) = start(redisson).await else { return };
    let theirs = bed.theirs().await;
    let (one, two) = (theirs.caller("a", NAME), theirs.caller("b", NAME));
    one.order("read:lock", "").await.granted();
    two.order("read:lock", "").await.granted();
    assert!(locker.try_lock(NAME).await.expect("an answer").is_none());
    let found = "Redisson's read-write lock, 2 readers";
    is_named(&locker.lock(NAME).await.expect_err("theirs"), found);
    is_named(&locker.mutex(NAME).holder().await.expect_err("theirs"), found);
    is_named(&locker.mutex(NAME).force_unlock().await.expect_err("theirs"), found);
    assert!(matches!(one.order("read:held", "").await.reply, Reply::Ok(_)), "not deleted");

    one.order("read:unlock", "").await.granted();
    two.order("read:unlock", "").await.granted();
    one.order("write:lock", "").await.granted();
    let found = "Redisson's read-write lock, 1 writer";
    is_named(&locker.mutex(NAME).holder().await.expect_err("theirs"), found);
    is_named(&locker.mutex(NAME).force_unlock().await.expect_err("theirs"), found);
    one.order("write:unlock", "").await.granted();
    locker.lock(NAME).await.expect("free").unlock().await.expect("held");
}

fn is_named(error: &Error, what: &str) {
    let Error::Refused(refused) = error else { panic!("{error}") };
    let problem = &refused.nodes[0].problem;
    assert!(
        matches!(problem, NodeProblem::WrongType { key, found } if key == NAME && found == what),
        "{problem}"
    );
}

/// redisson#4023: the read lock looks for a field `mode`, which no `RLock` has, neither ours nor
/// Redisson's.
async fn their_read_lock_is_granted_while_we_hold_the_name(redisson: &str) {
    let Some((bed, locker)) = start(redisson).await else { return };
    let theirs = bed.theirs().await;
    let guard = locker.lock(NAME).await.expect("free");
    theirs.caller("a", NAME).order("read:try", "0").await.granted();
    guard.check().expect("held");
}

async fn their_fair_lock_excludes_ours(redisson: &str) {
    takes_turns(redisson, "fair").await;
}

async fn their_spin_lock_excludes_ours(redisson: &str) {
    takes_turns(redisson, "spin").await;
}

/// Each client is refused while the other holds the lock, and gets it after the release, although
/// no message tells it.
async fn takes_turns(redisson: &str, kind: &str) {
    let Some((bed, locker)) = start(redisson).await else { return };
    let theirs = bed.theirs().await;
    let theirs = theirs.caller("a", NAME);
    let order = async |verb: &str, more: &str| theirs.order(&format!("{kind}:{verb}"), more).await;
    order("lock", "").await.granted();
    assert!(locker.try_lock(NAME).await.expect("an answer").is_none());
    let release = async {
        bed.awaits_ours(NAME).await;
        order("unlock", "").await.granted();
    };
    let guard = comes_after(
        &format!("ours beside their {kind} lock"),
        async { locker.lock(NAME).await },
        release,
    )
    .await;
    let guard = guard.expect("granted");

    order("try", "0").await.refused();
    let release = async {
        // The kinds of lock share no visible trace of a waiter, so the test sleeps.
        tokio::time::sleep(Duration::from_millis(200)).await;
        guard.unlock().await.expect("held");
    };
    comes_after(&format!("their {kind} lock"), order("lock", ""), release).await.granted();
}

#[tokio::test]
async fn strict_admission_keeps_our_promise_to_them_and_not_theirs_to_us() {
    let Some(bed) = Testbed::start("redsync", "redlock", 5, LONG_LEASE).await else { return };
    let theirs = bed.theirs().await;
    let locker = builder().on(Servers::quorum(bed.servers.urls())).expect("good URLs");
    locker.admit_nodes().await.expect("new servers");
    let forget = || {
        for server in bed.servers.iter().take(3) {
            server.restart_empty().expect("ours");
        }
    };
    // Our client does not take a lock that Redisson holds, although a majority has forgotten it.
    theirs.caller("a", "theirs").lock().await.granted();
    forget();
    let refused = locker.lock("theirs").wait(NOW).await.expect_err("three servers do not vote");
    let Error::Refused(refused) = refused else { panic!("{refused}") };
    let forgetful =
        |problem: &NodeProblem| matches!(problem, NodeProblem::NotAdmitted | NodeProblem::New);
    assert_eq!(refused.nodes.iter().filter(|node| forgetful(&node.problem)).count(), 3);

    // Redisson takes a lock that our client holds, if a majority has forgotten it.
    locker.force_admit_nodes().await.expect("all answer");
    let guard = locker.lock("ours").await.expect("free");
    theirs.caller("b", "ours").try_lock(NOW).await.refused();
    forget();
    theirs.caller("b", "ours").try_lock(Duration::from_secs(5)).await.granted();
    guard.check().expect("it has heard nothing yet");
}
