//! A waiter hears of a release by a message (docs/PROTOCOL.md W2, W3). No waiter here polls: where a
//! message is lost, or nobody understands it, the waiter sleeps until the lease in its way ends.

use std::time::Duration;

use futures::future::join_all;
use quorumlock::{Error, Locker};
use tokio::task::JoinHandle;

use super::LONG_LEASE;
use crate::{Testbed, Topology, within};

/// Each waiter waits so long, which is longer than the asks after its subscription.
const WAIT: Duration = Duration::from_secs(3);

/// After a wait of three seconds, of another process and of another task of the same one.
pub async fn a_waiter_of_each_kind_hears_of_a_release(bed: &Testbed) {
    each_kind_hears(|| bed.build(bed.builder().polls(false))).await;
}

/// The same in strict order.
pub async fn a_waiter_in_strict_order_hears_of_a_release(bed: &Testbed) {
    if matches!(bed.topology(), Topology::Single | Topology::Proven | Topology::ProvenMaster) {
        each_kind_hears(|| bed.build(bed.builder().polls(false).strict_order(true))).await;
    }
}

/// Waiters of several processes, of each kind, come one after the other: each release is heard.
pub async fn all_waiters_of_each_kind_hear_in_turn(bed: &Testbed) {
    let locker = || bed.build(bed.builder().polls(false));
    let (locks, sets, permits, both) =
        ("heard/lock", ["{heard}/a", "{heard}/b"], "heard/permit", "heard/both");
    let holder = locker();
    let lock = holder.lock(locks).lease(LONG_LEASE).await.expect("free");
    let set = holder.lock(sets).lease(LONG_LEASE).await.expect("free");
    let permit = holder.semaphore(permits, 1).acquire().lease(LONG_LEASE).await.expect("free");
    let writer = holder.rw_lock(both).write().lease(LONG_LEASE).await.expect("free");
    let mut waiting: Vec<JoinHandle<Result<(), Error>>> = Vec::new();
    for locker in [locker(), locker(), locker()] {
        for _ in 0..2 {
            let ours = locker.clone();
            waiting.push(tokio::spawn(async move { ours.lock(locks).await?.unlock().await }));
            let ours = locker.clone();
            waiting.push(tokio::spawn(async move { ours.lock(sets).await?.unlock().await }));
            let ours = locker.clone();
            waiting.push(tokio::spawn(async move {
                ours.semaphore(permits, 1).acquire().await?.unlock().await
            }));
            let ours = locker.clone();
            waiting
                .push(tokio::spawn(async move { ours.rw_lock(both).read().await?.unlock().await }));
            let ours = locker.clone();
            waiting.push(tokio::spawn(
                async move { ours.rw_lock(both).write().await?.unlock().await },
            ));
        }
    }
    tokio::time::sleep(WAIT / 3).await;
    for released in
        [lock.unlock().await, set.unlock().await, permit.unlock().await, writer.unlock().await]
    {
        released.expect("still held");
    }
    for (number, waiter) in waiting.into_iter().enumerate() {
        let kind = ["lock", "set", "permit", "read", "write"][number % 5];
        within(kind, waiter).await.expect("no panic").expect("had and given back");
    }
}

/// A holder and a waiter of each kind, from lockers that do not poll.
///
/// # Panics
/// If a waiter does not hear of the release.
pub async fn each_kind_hears(locker: impl Fn() -> Locker) {
    let holder = locker();
    let cases = [("another process", locker()), ("the same process", holder.clone())];
    let cases = cases.map(|(whose, waiter)| kinds_hear(whose, holder.clone(), waiter));
    join_all(cases).await;
}

async fn kinds_hear(whose: &str, holder: Locker, waiter: Locker) {
    let name = |kind: &str| format!("heard of by {whose}/{kind}");
    let (lock, set, read) = (name("lock"), [name("{set} 1"), name("{set} 2")], name("read"));
    let (write, permit, election) = (name("write"), name("permit"), name("election"));
    let lease = LONG_LEASE;
    let held = (
        holder.lock(&lock).lease(lease).await.expect("free"),
        holder.lock(&set[1]).lease(lease).await.expect("free"),
        holder.rw_lock(&read).write().lease(lease).await.expect("free"),
        holder.rw_lock(&write).read().lease(lease).await.expect("free"),
        holder.semaphore(&permit, 1).acquire().lease(lease).await.expect("free"),
        holder.election(&election).campaign().lease(lease).await.expect("free"),
    );
    let w = waiter.clone();
    let waits_for_lock = tokio::spawn(async move { w.lock(&lock).await?.unlock().await });
    let w = waiter.clone();
    let waits_for_set = tokio::spawn(async move { w.lock(&set).await?.unlock().await });
    let w = waiter.clone();
    let reader = tokio::spawn(async move { w.rw_lock(&read).read().await?.unlock().await });
    let w = waiter.clone();
    let writer = tokio::spawn(async move { w.rw_lock(&write).write().await?.unlock().await });
    let w = waiter.clone();
    let waits_for_permit =
        tokio::spawn(async move { w.semaphore(&permit, 1).acquire().await?.unlock().await });
    let candidate =
        tokio::spawn(async move { waiter.election(&election).campaign().await?.unlock().await });
    tokio::time::sleep(WAIT).await;
    heard("lock", whose, held.0.unlock().await, waits_for_lock).await;
    heard("set", whose, held.1.unlock().await, waits_for_set).await;
    heard("read", whose, held.2.unlock().await, reader).await;
    heard("write", whose, held.3.unlock().await, writer).await;
    heard("permit", whose, held.4.unlock().await, waits_for_permit).await;
    heard("election", whose, held.5.unlock().await, candidate).await;
}

async fn heard(
    kind: &str,
    whose: &str,
    released: Result<(), Error>,
    waiter: JoinHandle<Result<(), Error>>,
) {
    released.expect("still held");
    let answer = within(&format!("{kind}, a waiter of {whose}"), waiter).await;
    answer.expect("no panic").expect("granted and given back");
}
