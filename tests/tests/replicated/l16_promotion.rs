//! L16: the master dies before it has copied the lock, and its replica is promoted (`SAFETY.md` H11).
//!
//! Without WAIT both hold, with the *same* token: the documented limit of this deployment. With it
//! the first is refused instead.

use std::time::Duration;

use quorumlock::{Locker, NodeProblem};
use quorumlock_tests::eventually;

use crate::{Fleet, NAME, assert_both_hold, granted, patient, refusal};

#[tokio::test]
async fn without_wait_both_hold_with_the_same_token() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.locker(), fleet.locker());
    was_held_before(&fleet, &first).await;
    fleet.cut(1);
    let guard = granted(&first, NAME).await;
    fleet.fail_over(1).await;
    let other = granted(&second, NAME).await;
    assert_both_hold(&guard, &other);
    assert_eq!(guard.fence(), other.fence(), "the lost writes had the counter");
}

#[tokio::test]
async fn with_wait_the_first_is_refused() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let builder = || patient().replicas(1).replica_timeout(Duration::from_millis(300));
    let first = builder().replicated(fleet.urls()).expect("good URLs");
    was_held_before(&fleet, &first).await;
    fleet.cut(1);
    let said = refusal(&first).await;
    assert!(matches!(said, NodeProblem::NoReplicas(_)), "{said}");
    fleet.fail_over(1).await;
    drop(granted(&fleet.locker(), NAME).await);
}

/// All of it is copied: the counter is, and the lock is free.
async fn was_held_before(fleet: &Fleet, locker: &Locker) {
    granted(locker, NAME).await.unlock().await.expect("held");
    fleet.copied("redisson_lock_token:{x}", 1).await;
    let freed = async || (!fleet.plain[1].exists(NAME).await).then_some(());
    eventually("the release is copied", freed).await;
}
