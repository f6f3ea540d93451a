//! `Layout::Redisson`: a hash at the lock's name. Its one field is the holder, and the value counts
//! the holder's holds.

use std::collections::HashMap;
use std::time::Duration;

use quorumlock::{Layout, Owner};
use quorumlock_tests::{Plain, eventually};

use crate::{LONG_LEASE, Node, is_lower_hex};

#[tokio::test]
async fn a_lock_is_a_hash_with_one_field_that_counts_one() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let lease = Duration::from_secs(10);
    let guard = locker.lock("invoice/7").lease(lease).await.expect("free");
    assert_eq!(plain.ask::<String>(&["TYPE", "invoice/7"]).await, "hash");
    let (field, count) = only_field(&plain).await;
    assert_is_owner_id(&field);
    assert_eq!(count, "1");
    let left = plain.pttl("invoice/7").await;
    assert!((5_000..=10_000).contains(&left), "{left}");
    let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!((holder.id, holder.holds), (field, 1));

    guard.unlock().await.expect("unlocked");
    assert!(!plain.exists("invoice/7").await, "deleted, not left with a count of 0");
}

/// Asserts the form `<uuid>:<id>`: 8-4-4-4-12 hexadecimal digits before the colon, and a decimal
/// number after it.
fn assert_is_owner_id(field: &str) {
    let (uuid, id) = field.rsplit_once(':').expect("a colon");
    let parts = uuid.split('-').collect::<Vec<_>>();
    let lengths = parts.iter().map(|part| part.len()).collect::<Vec<_>>();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{field}");
    assert!(parts.iter().all(|part| is_lower_hex(part)), "{field}");
    assert!(id.parse::<u64>().is_ok_and(|number| number.to_string() == id), "{field}");
}

async fn only_field(plain: &Plain) -> (String, String) {
    let fields = plain.ask::<HashMap<String, String>>(&["HGETALL", "invoice/7"]).await;
    assert_eq!(fields.len(), 1, "{fields:?}");
    fields.into_iter().next().expect("one")
}

#[tokio::test]
async fn each_acquisition_has_a_field_of_its_own() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let owner = Owner::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        // The fields differ even for the same owner: a late release of the first hold must not free
        // the second.
        let guard = locker.lock("invoice/7").lease(LONG_LEASE).owner(&owner).await.expect("free");
        let (field, _) = only_field(&plain).await;
        assert!(!seen.contains(&field), "{field} again");
        seen.push(field);
        guard.unlock().await.expect("unlocked");
    }
}

#[tokio::test]
async fn re_entry_counts_in_the_field_and_a_partial_unlock_publishes_nothing() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let mut messages = plain.listen("redisson_lock__channel:{invoice/7}").await;
    let owner = Owner::new();
    let lock = || locker.lock("invoice/7").lease(LONG_LEASE).owner(&owner);
    let outer = lock().await.expect("free");
    let (field, _) = only_field(&plain).await;
    let middle = lock().await.expect("ours");
    awaits_count(&plain, &field, "2").await;
    let inner = lock().await.expect("ours");
    awaits_count(&plain, &field, "3").await;
    let shown = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!(shown.holds, 3);

    inner.unlock().await.expect("unlocked");
    awaits_count(&plain, &field, "2").await;
    outer.unlock().await.expect("unlocked");
    awaits_count(&plain, &field, "1").await;
    assert!((1..=60_000).contains(&plain.pttl("invoice/7").await));
    plain.ask::<i64>(&["PUBLISH", "redisson_lock__channel:{invoice/7}", "nothing before"]).await;
    assert_eq!(messages.next().await, "nothing before");
    middle.unlock().await.expect("unlocked");
    assert_eq!(messages.next().await, "0");
}

async fn awaits_count(plain: &Plain, field: &str, holds: &str) {
    eventually(&format!("a count of {holds}"), async || {
        let (only, count) = only_field(plain).await;
        assert_eq!(only, field, "one lease, one field");
        (count == holds).then_some(())
    })
    .await;
}

#[tokio::test]
async fn renewal_keeps_field_and_count_and_never_exceeds_the_lease() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let lease = Duration::from_millis(900);
    let guard = locker.lock("invoice/7").lease(lease).await.expect("free");
    let before = only_field(&plain).await;
    let mut last = plain.pttl("invoice/7").await;
    let mut renewals = 0;
    while renewals < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let left = plain.pttl("invoice/7").await;
        assert!((0..=900).contains(&left), "{left}");
        renewals += usize::from(left > last);
        last = left;
        guard.check().expect("kept");
    }
    assert_eq!(only_field(&plain).await, before);
}
