//! `Layout::Redlock`: a string at the lock's name, as `SET name nonce NX PX ttl` leaves it.

use std::time::Duration;

use quorumlock::{Layout, Owner};
use quorumlock_tests::{eventually, within};

use crate::{LONG_LEASE, Node, Quorum, is_lower_hex};

#[tokio::test]
async fn a_lock_is_a_string_of_32_hexadecimal_digits() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let lease = Duration::from_secs(10);
    let guard = locker.lock("invoice/7").lease(lease).await.expect("free");
    assert_eq!(plain.ask::<String>(&["TYPE", "invoice/7"]).await, "string");
    let nonce = plain.ask::<String>(&["GET", "invoice/7"]).await;
    assert_eq!(nonce.len(), 32, "{nonce}");
    assert!(is_lower_hex(&nonce), "{nonce}");
    let left = plain.pttl("invoice/7").await;
    assert!((5_000..=10_000).contains(&left), "{left}");
    let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.id, nonce);

    guard.unlock().await.expect("unlocked");
    assert!(!plain.exists("invoice/7").await);
}

/// SAFETY.md A5.
#[tokio::test]
async fn each_acquisition_has_a_nonce_of_its_own() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let owner = Owner::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let guard = locker.lock("invoice/7").lease(LONG_LEASE).owner(&owner).await.expect("free");
        // Re-entry is part of the same acquisition.
        let inner = locker.lock("invoice/7").lease(LONG_LEASE).owner(&owner).await.expect("ours");
        let nonce = plain.ask::<String>(&["GET", "invoice/7"]).await;
        assert!(!seen.contains(&nonce), "{nonce} again");
        seen.push(nonce.clone());
        guard.unlock().await.expect("unlocked");
        assert_eq!(plain.ask::<String>(&["GET", "invoice/7"]).await, nonce, "one guard is left");
        inner.unlock().await.expect("unlocked");
    }
}

/// redsync, node-redlock, rslock and redis-py send `SET NX PX` with values of their own.
#[tokio::test]
async fn a_foreign_set_nx_excludes_us_until_it_expires() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let set = ["SET", "invoice/7", "somebody else's", "NX", "PX", "700"];
    assert_eq!(plain.ask::<Option<String>>(&set).await.as_deref(), Some("OK"));
    assert!(locker.try_lock("invoice/7").await.expect("an answer").is_none());
    let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.id, "somebody else's");
    // These clients publish no releases, so our waiter acquires the lock when the lease ends.
    let guard = within("its end", locker.lock("invoice/7")).await.expect("free");
    assert_ne!(plain.ask::<String>(&["GET", "invoice/7"]).await, "somebody else's");
    drop(guard);
}

#[tokio::test]
async fn we_exclude_a_foreign_set_nx_and_its_compare_and_delete() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let guard = locker.lock("invoice/7").lease(LONG_LEASE).await.expect("free");
    let set = ["SET", "invoice/7", "somebody else's", "NX", "PX", "700"];
    assert_eq!(plain.ask::<Option<String>>(&set).await, None);
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    let deleted = plain.ask::<i64>(&["EVAL", release, "1", "invoice/7", "somebody else's"]).await;
    assert_eq!(deleted, 0);
    guard.check().expect("still held");
    guard.unlock().await.expect("unlocked");
    assert_eq!(plain.ask::<Option<String>>(&set).await.as_deref(), Some("OK"));
}

/// A dead holder's key on a node whose clock was set back looks like this. No message will tell of
/// its end either, so only a poll after a lease of the waiter's own finds it free (SAFETY.md H7).
#[tokio::test]
async fn a_key_that_claims_to_live_for_long_is_not_believed() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    plain.ask::<String>(&["SET", "invoice/7", "a dead one's", "PX", "3600000"]).await;
    let lock = locker.lock("invoice/7").lease(Duration::from_millis(500));
    let waiter = tokio::spawn(lock.into_future());
    eventually("it waits", async || {
        plain.exists("quorumlock:waiters:{invoice/7}").await.then_some(())
    })
    .await;
    plain.ask::<i64>(&["DEL", "invoice/7"]).await;
    drop(within("a lease of its own", waiter).await.expect("no panic").expect("free"));
}

/// A lock without expiry, as some hand-written code leaves it, is held forever.
#[tokio::test]
async fn a_foreign_key_without_expiry_excludes_us_for_ever() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    plain.ask::<String>(&["SET", "invoice/7", "for ever"]).await;
    let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.remaining, None);
    let answer = locker.lock("invoice/7").wait(Duration::from_millis(200)).await;
    let Err(quorumlock::Error::Busy(busy)) = answer else { panic!("{answer:?}") };
    assert_eq!(busy.remaining, None);
    assert_eq!(plain.pttl("invoice/7").await, -1, "left as it was");
}

#[tokio::test]
async fn a_foreign_majority_excludes_us_and_a_foreign_minority_does_not() {
    let Some(quorum) = Quorum::start(3, Layout::Redlock).await else { return };
    let (locker, plain) = quorum.clients();
    let set = ["SET", "invoice/7", "somebody else's", "NX", "PX", "120000"];
    for node in &plain[..2] {
        assert_eq!(node.ask::<Option<String>>(&set).await.as_deref(), Some("OK"));
    }
    assert!(locker.try_lock("invoice/7").await.expect("an answer").is_none());
    // A refused attempt leaves no key on the third node, which may have granted it.
    eventually("cleaned up", async || (!plain[2].exists("invoice/7").await).then_some(())).await;

    plain[0].ask::<i64>(&["DEL", "invoice/7"]).await;
    let guard = locker
        .try_lock("invoice/7")
        .lease(LONG_LEASE)
        .await
        .expect("an answer")
        .expect("a majority");
    assert_eq!(plain[1].ask::<String>(&["GET", "invoice/7"]).await, "somebody else's");
    guard.unlock().await.expect("unlocked");
    assert_eq!(plain[1].ask::<String>(&["GET", "invoice/7"]).await, "somebody else's");
}
