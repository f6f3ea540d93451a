//! A local handoff: the lock goes from task to task inside a process. Each task has a new hold with
//! a token of its own, though the nodes see one acquisition.

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt as _;
use quorumlock::{Error, Guard, Locker, LossReason};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Testbed, eventually, within};

/// Tasks are served in order, each with a larger token, after the previous task's guard has ended.
pub async fn tasks_of_one_process_take_over_in_order_with_tokens_of_their_own(bed: &Testbed) {
    let locker = bed.locker();
    // A stall of this machine can prevent a handoff, so the test tries until one happens.
    eventually("a lock that was handed over", async || {
        let mut guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        let mut waiting: Vec<_> = (0..6).map(|_| queued(&locker, LONG_LEASE)).collect();
        let mut handed = 0;
        for next in &mut waiting {
            let (token, view, before) = (guard.token(), guard.view(), id(&locker).await);
            guard.unlock().await.expect("held");
            let why = view.check().expect_err("its hold has ended").why;
            assert_eq!(why, LossReason::Released);
            guard = within("its turn", next).await.expect("free");
            guard.check().expect("held");
            assert!(guard.token() > token, "{} after {token}", guard.token());
            handed += u32::from(id(&locker).await == before);
        }
        let token = guard.token();
        guard.unlock().await.expect("held");
        let other = within("free", bed.locker().lock(NAME)).await.expect("free");
        assert!(other.token() > token, "{} after {token}: no token is given twice", other.token());
        other.unlock().await.expect("held");
        (handed > 0).then_some(())
    })
    .await;
    bed.awaits_no_key(NAME).await;
}

/// A waiter that gives up after it has received the lock passes it on; nothing is left behind.
pub async fn a_waiter_that_gives_up_with_the_lock_in_its_hands_passes_it_on(bed: &Testbed) {
    let locker = bed.locker();
    let first = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let (mut a, b) = (queued(&locker, LONG_LEASE), queued(&locker, LONG_LEASE));
    let (mut c, d) = (queued(&locker, LONG_LEASE), queued(&locker, LONG_LEASE));
    drop(first);
    let guard = within("its turn", &mut a).await.expect("free");
    // Other tasks wait, so the acquisition has reserved tokens for them: from here on the lock is
    // handed off locally.
    guard.unlock().await.expect("held");
    drop(b);
    let guard = within("its turn", &mut c).await.expect("free");
    guard.check().expect("held");
    guard.unlock().await.expect("held");
    drop(d);
    bed.awaits_no_key(NAME).await;
    drop(within("free", bed.locker().lock(NAME)).await.expect("free"));
}

/// The task that takes over runs first: the previous holder most often only asks again, behind it.
pub async fn whoever_takes_over_goes_on_before_whoever_unlocked(bed: &Testbed) {
    let locker = bed.locker();
    eventually("a lock that was handed over", async || {
        let first = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        let (mut a, mut b) = (queued(&locker, LONG_LEASE), queued(&locker, LONG_LEASE));
        drop(first);
        let mut unlocking = Box::pin(within("its turn", &mut a).await.expect("free").unlock());
        let unlocked = (&mut unlocking).now_or_never();
        let handed = (&mut b).now_or_never();
        assert!(handed.is_none() || unlocked.is_none(), "the next one first");
        if unlocked.is_none() {
            unlocking.await.expect("held");
        }
        // After a stall of this machine the task has to ask the nodes.
        let stalled = handed.is_none();
        let next = match handed {
            Some(next) => next,
            None => within("its turn", &mut b).await,
        };
        next.expect("free").unlock().await.expect("held");
        (!stalled).then_some(())
    })
    .await;
}

/// A lost lease is not handed off: the waiter acquires the lock from the nodes.
pub async fn a_lost_lock_is_not_handed_over(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(SHORT_LEASE).await.expect("free");
    let mut next = queued(&locker, SHORT_LEASE);
    for node in bed.live().await {
        let _: i64 = node.ask(&["DEL", NAME]).await;
    }
    within("told", guard.lost()).await;
    let answer = guard.unlock().await;
    assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
    let next = within("its turn", &mut next).await.expect("free");
    next.check().expect("held");
    assert!(id(&locker).await.is_some(), "on the nodes, too");
}

/// A waiter that wants a lease of another length asks the nodes.
pub async fn a_lease_of_another_length_is_not_taken_over(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let before = id(&locker).await;
    let mut next = queued(&locker, LONG_LEASE / 2);
    guard.unlock().await.expect("held");
    let _next = within("its turn", &mut next).await.expect("free");
    assert_ne!(id(&locker).await, before);
    for node in bed.live().await {
        let longest = i64::try_from((LONG_LEASE / 2).as_millis()).expect("fits");
        // A node beyond the majority may carry out the release after the next grant.
        eventually("its own lease", async || (node.pttl(NAME).await <= longest).then_some(()))
            .await;
    }
}

/// The next waiter's own limit counts from the handoff.
pub async fn a_hold_limit_holds_after_a_handover_too(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(SHORT_LEASE).await.expect("free");
    let limit = SHORT_LEASE * 2;
    let mut next = Box::pin(locker.lock(NAME).lease(SHORT_LEASE).hold_at_most(limit).into_future());
    assert!((&mut next).now_or_never().is_none(), "held");
    guard.unlock().await.expect("held");
    let next = within("its turn", &mut next).await.expect("free");
    let lost = within("its limit", next.lost()).await;
    assert_eq!(lost.why, LossReason::HoldLimit);
}

type Queued = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

/// A waiter that is in the local queue of its process when this returns.
fn queued(locker: &Locker, lease: Duration) -> Queued {
    let mut waiting = locker.lock(NAME).lease(lease).into_future();
    assert!((&mut waiting).now_or_never().is_none(), "it is held");
    waiting
}

/// The id of the holder, as the nodes report it.
async fn id(locker: &Locker) -> Option<String> {
    locker.mutex(NAME).holder().await.expect("an answer").map(|holder| holder.id)
}
