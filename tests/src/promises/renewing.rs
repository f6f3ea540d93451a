//! Renewals that the holder asks for, and the warning that renewals fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::telemetry::Event;
use quorumlock::{Error, LossReason, NodeProblem, NodeReport};

use super::{LONG_LEASE, NAME, is_taken_away};
use crate::{Stopwatch, Testbed, eventually, within};

/// `renew` moves the end of the lease at the holder's request, but not past the hold limit.
pub async fn a_renewal_moves_the_end_of_the_lease(bed: &Testbed) {
    let locker = bed.locker();
    let clock = Stopwatch::start();
    let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    // The first lease counts from before this.
    let taken = clock.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = clock.elapsed();
    within("the renewal", guard.renew()).await.expect("renewed");
    let end = guard.valid_for() + clock.elapsed();
    let allowance = LONG_LEASE.mul_f64(0.01) + Duration::from_millis(5);
    assert!(end + allowance >= asked + LONG_LEASE, "{end:?}, taken at {taken:?}");
    for node in bed.live().await {
        let left = node.pttl(NAME).await;
        assert!(left <= 60_000, "{left}: the lease is as long as at first, and not added");
    }
    // Servers on which somebody has shortened the lease have it whole again.
    for node in bed.live().await {
        node.ask::<i64>(&["PEXPIRE", NAME, "20000"]).await;
    }
    within("the renewal", guard.renew()).await.expect("renewed");
    for node in bed.live().await {
        eventually("the whole lease", async || (node.pttl(NAME).await > 20_000).then_some(()))
            .await;
    }
    guard.unlock().await.expect("unlocked");

    let (limit, clock) = (LONG_LEASE / 2, Stopwatch::start());
    let guard = locker.lock(NAME).lease(LONG_LEASE).hold_at_most(limit).await.expect("free");
    let begun = clock.elapsed();
    within("the renewal", guard.renew()).await.expect("renewed");
    assert!(clock.elapsed() + guard.valid_for() <= begun + limit, "past its limit");
    assert_eq!(guard.loss_ahead(), LossReason::HoldLimit);
}

/// A renewal neither heals a lost lock nor harms its next holder.
pub async fn a_lost_lock_is_not_renewed(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    assert!(guard.is_valid());
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    let next = within("the freed lock", other.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    let refused = within("an answer", guard.renew()).await.expect_err("lost");
    let Error::Lost(lost) = &refused else { panic!("{refused:?}") };
    assert!(is_taken_away(lost.why), "{lost}");
    assert!(!guard.is_valid() && !refused.is_retryable());
    assert!(matches!(guard.renew().await, Err(Error::Lost(_))), "and it stays so");
    let holder = other.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert!(holder.has(next.nonce()) && next.is_valid());
    next.renew().await.expect("ours");

    let brief = Duration::from_millis(300);
    let ended = ours.lock("invoice/8").hold_at_most(brief).await.expect("free");
    within("its limit", ended.lost()).await;
    assert!(matches!(ended.renew().await, Err(Error::Lost(_))));
}

/// A renewal that no majority confirms is an error, and no loss.
pub async fn an_unanswered_renewal_is_told_and_loses_nothing(bed: &Testbed) {
    let locker = bed.build(bed.builder().answer_timeout(Duration::from_millis(400)));
    let guard = within("free", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    bed.pause_all();
    let failed = within("the answer timeout", guard.renew()).await.expect_err("nobody answers");
    let Error::Unreachable(none) = &failed else { panic!("{failed:?}") };
    let [NodeReport { problem: NodeProblem::NotRenewed, .. }] = &none.nodes[..] else {
        panic!("{failed:?}")
    };
    assert!(failed.is_retryable() && guard.is_valid(), "{failed}");
    bed.resume_all();
    eventually("renewed", async || guard.renew().await.ok()).await;
    guard.unlock().await.expect("unlocked");
}

/// A holder whose renewals fail is warned while it still holds the lock. The warning ends when a
/// renewal is confirmed. Both are events.
pub async fn failing_renewals_are_told_before_the_loss(bed: &Testbed) {
    let lease = Duration::from_secs(3);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let risks = heard.clone();
    let locker = bed.build(bed.builder().on_event(move |event| match event {
        Event::RiskBegan { left, .. } => heard.lock().expect("no panic").push(Some(*left)),
        Event::RiskEnded { .. } => heard.lock().expect("no panic").push(None),
        _ => {}
    }));
    let guard = locker.lock(NAME).lease(lease).await.expect("free");
    let view = guard.view();
    bed.pause_all();
    within("the warning", view.at_risk()).await;
    assert!(guard.is_at_risk() && view.is_at_risk() && guard.is_valid(), "too late: {guard:?}");
    assert_eq!(guard.loss_ahead(), LossReason::WindowShut);
    assert!(guard.valid_for() <= lease / 2 + lease / 30, "too early: {guard:?}");
    bed.resume_all();
    eventually("renewed", async || (!guard.is_at_risk()).then_some(())).await;
    guard.check().expect("it has recovered");
    let told = risks.lock().expect("no panic").clone();
    assert!(matches!(told[..], [Some(left), None, ..] if left < lease), "{told:?}");
    guard.unlock().await.expect("unlocked");
    within("the end", view.at_risk()).await;
    assert!(!view.is_at_risk(), "it is over");
}
