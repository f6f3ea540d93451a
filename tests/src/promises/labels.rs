//! Who holds a lock, for people (docs/PROTOCOL.md, Labels).

use std::collections::BTreeSet;
use std::future::IntoFuture as _;

use futures::FutureExt as _;
use quorumlock::{Holder, Locker, Nonce, Owner};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Testbed, eventually, within};

fn labelled(bed: &Testbed, label: &str) -> Locker {
    bed.build(bed.builder().label(label))
}

fn key(nonce: Nonce) -> String {
    let digits = nonce.to_string();
    format!("quorumlock:owner:{}", &digits[digits.len() - 12..])
}

/// Where the label of one hold is.
fn hold_key(nonce: Nonce) -> String {
    format!("quorumlock:owner:{nonce}")
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

/// A hold may have a label of its own. Its nodes keep it until the release.
pub async fn a_hold_has_a_label_of_its_own(bed: &Testbed) {
    let (ours, asks) = (labelled(bed, "ours"), bed.locker());
    let owner = Owner::new();
    let job =
        |name: &'static str| ours.lock(name).lease(SHORT_LEASE).owner(&owner).label("job é 7");
    let one = within("free", job(NAME)).await.expect("granted");
    let two = within("free", ours.lock("invoice/8").lease(LONG_LEASE)).await.expect("granted");
    let inner = within("ours", job(NAME).label("another")).await.expect("entered again");
    is_told(&asks, NAME, "job é 7").await;
    is_told(&asks, "invoice/8", "ours").await;
    let refused =
        within("an answer", asks.try_lock(NAME).label("refused")).await.expect("an answer");
    assert!(refused.is_none());
    for node in bed.live().await {
        let key = hold_key(one.nonce());
        eventually("the label", async || node.exists(&key).await.then_some(())).await;
        node.ask::<i64>(&["DEL", &key]).await;
        eventually("the next renewal's", async || node.exists(&key).await.then_some(())).await;
        let left = node.pttl(&key).await;
        assert!(left <= 2 * SHORT_LEASE.as_millis() as i64, "{left} ms");
    }
    inner.unlock().await.expect("held");
    // No renewal tells the label: the hold is shorter than the lease.
    let next = asks.lock(NAME).hold_at_most(LONG_LEASE / 2).lease(LONG_LEASE).label("next");
    let next = tokio::spawn(next.into_future());
    bed.awaits_waiters(NAME).await;
    one.unlock().await.expect("held");
    let next = within("its turn", next).await.expect("no panic").expect("granted");
    is_told(&ours, NAME, "next").await;
    // A node that grants it after the release keeps the label until it expires.
    let last = hold_key(next.nonce());
    next.unlock().await.expect("held");
    for node in bed.live().await {
        // A renewal that was on its way may write it once more.
        eventually("deleted", async || {
            let pattern = "quorumlock:owner:????????????????????????????????";
            let kept: Vec<String> = node.ask(&["KEYS", pattern]).await;
            kept.iter().all(|key| *key == last).then_some(())
        })
        .await;
    }
    drop(two);
}

/// A label of its own for a hold of each kind. A writer that reads on keeps it.
pub async fn a_hold_of_each_kind_has_a_label_of_its_own(bed: &Testbed) {
    let (ours, asks) = (labelled(bed, "ours"), bed.locker());
    let set = ours.lock(["{s}1", "{s}2"]).lease(LONG_LEASE).label("a set");
    let set = within("free", set).await.expect("granted");
    is_told(&asks, "{s}1", "a set").await;
    is_told(&asks, "{s}2", "a set").await;
    let semaphore = ours.semaphore("p", 2);
    let permit = semaphore.acquire().lease(LONG_LEASE).label("a permit");
    let permit = within("free", permit).await.expect("granted");
    eventually("a permit", async || {
        let holders = asks.semaphore("p", 2).holders().await.expect("an answer");
        let holder = holders[usize::from(permit.slot())].as_ref().expect("held");
        (holder.label.as_deref() == Some("a permit")).then_some(())
    })
    .await;
    let reads_or_writes = async |expected: &str| {
        eventually(expected, async || {
            let holder = asks.rw_lock("rw").holder().await.expect("an answer").expect("held");
            (holder.label.as_deref() == Some(expected)).then_some(())
        })
        .await;
    };
    let rw_lock = ours.rw_lock("rw");
    let reader = rw_lock.read().lease(LONG_LEASE).label("a reader");
    let reader = within("free", reader).await.expect("granted");
    reads_or_writes("a reader").await;
    reader.unlock().await.expect("held");
    let writer = rw_lock.write().lease(LONG_LEASE).label("a writer");
    let writer = within("free", writer).await.expect("granted");
    reads_or_writes("a writer").await;
    let reader = writer.downgrade().await.expect("held");
    reads_or_writes("a writer").await;
    drop((set, permit, reader));
}

/// A lease that passes from task to task would keep the label that the nodes have.
pub async fn the_next_task_has_its_own_label(bed: &Testbed) {
    let (ours, asks) = (labelled(bed, "ours"), bed.locker());
    let first = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let job = |label| ours.lock(NAME).lease(LONG_LEASE).label(label).into_future();
    let locker = ours.lock(NAME).lease(LONG_LEASE).into_future();
    let mut waiting = [("job 1", job("job 1")), ("job 2", job("job 2")), ("ours", locker)];
    for (label, next) in &mut waiting {
        assert!(next.now_or_never().is_none(), "{label} waits");
    }
    drop(first);
    for (label, next) in waiting {
        let guard = within("its turn", next).await.expect("granted");
        is_told(&asks, NAME, label).await;
        guard.unlock().await.expect("held");
    }
}

/// Waits until a holder of the name has this label.
async fn is_told(asks: &Locker, name: &str, expected: &str) {
    eventually(expected, async || {
        let holder = asks.mutex(name).holder().await.expect("an answer").expect("held");
        (holder.label.as_deref() == Some(expected)).then_some(())
    })
    .await;
}
