//! Who holds a lock, for people (docs/PROTOCOL.md, Labels).

use std::collections::BTreeSet;

use quorumlock::{Holder, Locker, Nonce};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Testbed, eventually, within};

fn labelled(bed: &Testbed, label: &str) -> Locker {
    bed.build(bed.builder().label(label))
}

fn key(nonce: Nonce) -> String {
    let digits = nonce.to_string();
    format!("quorumlock:owner:{}", &digits[digits.len() - 12..])
}

async fn label(locker: &Locker, name: &str) -> Option<String> {
    let label = |holder: Option<Holder>| holder.expect("held").label;
    eventually("the label", async || {
        locker.mutex(name).holder().await.map(label).expect("an answer").map(Some)
    })
    .await
}

/// Each holder's label is that of its locker, for each kind of lock.
pub async fn a_holder_has_the_label_of_its_locker(bed: &Testbed) {
    let (ours, theirs, asks) = (labelled(bed, "ours é"), labelled(bed, "theirs"), bed.locker());
    let one = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let two = within("free", theirs.lock("invoice/8").lease(LONG_LEASE)).await.expect("granted");
    assert_eq!(label(&asks, NAME).await.as_deref(), Some("ours é"));
    assert_eq!(label(&asks, "invoice/8").await.as_deref(), Some("theirs"));
    let permit = within("free", theirs.semaphore("p", 2).acquire().lease(LONG_LEASE))
        .await
        .expect("granted");
    let holders = asks.semaphore("p", 2).holders().await.expect("an answer");
    let holder = holders[usize::from(permit.slot())].as_ref().expect("held");
    assert_eq!(holder.label.as_deref(), Some("theirs"));
    let writer =
        within("free", ours.rw_lock("rw").write().lease(LONG_LEASE)).await.expect("granted");
    let holder = asks.rw_lock("rw").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.label.as_deref(), Some("ours é"));
    for node in bed.live().await {
        let left = node.pttl(&key(one.nonce())).await;
        assert!(left <= 120_000, "a process that has ended leaves it for {left} ms");
    }
    drop((one, two, permit, writer));
}

/// The default names the process; an empty label writes nothing.
pub async fn the_default_label_is_the_machine_and_the_process(bed: &Testbed) {
    let (silent, default) = (labelled(bed, ""), bed.locker());
    let guard = within("free", silent.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let holder = default.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert!(holder.has(guard.nonce()));
    assert_eq!(holder.label, None);
    for node in bed.live().await {
        assert!(!node.exists(&key(guard.nonce())).await);
    }
    let other = within("free", default.lock("x").lease(LONG_LEASE)).await.expect("granted");
    let label = label(&silent, "x").await.expect("a label");
    assert!(label.ends_with(&format!(":{}", std::process::id())), "{label}");
    drop((guard, other));
}

/// Each acquisition has a fresh nonce, whose last 12 digits are those of its locker.
pub async fn nonces_of_one_locker_end_alike(bed: &Testbed) {
    let (ours, theirs) = (bed.locker(), bed.locker());
    let mut nonces = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for number in 0..5 {
        let name = format!("invoice/{number}");
        let guard = within("free", ours.lock(&name).lease(LONG_LEASE)).await.expect("granted");
        nonces.insert(guard.nonce().to_string());
        keys.insert(key(guard.nonce()));
        guard.unlock().await.expect("held");
    }
    assert_eq!((nonces.len(), keys.len()), (5, 1));
    let other = within("free", theirs.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    assert!(!keys.contains(&key(other.nonce())));
}

/// A server that lost the label gets it again with a renewal, once the connection is new.
pub async fn a_lost_label_is_written_again(bed: &Testbed) {
    let ours = labelled(bed, "ours");
    let guard = within("free", ours.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    let key = key(guard.nonce());
    for node in bed.live().await {
        eventually("the label", async || node.exists(&key).await.then_some(())).await;
        node.ask::<i64>(&["DEL", &key]).await;
        node.ask::<i64>(&["CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"]).await;
        eventually("the label again", async || node.exists(&key).await.then_some(())).await;
        let left = node.pttl(&key).await;
        assert!((60_000..=120_000).contains(&left), "{left} ms");
    }
    assert!(guard.check().is_ok());
}
