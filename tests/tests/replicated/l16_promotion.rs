//! L16: the master dies before it has copied the lock, and its replica is promoted (`SAFETY.md`
//! H11).
//!
//! Without `WAIT` both hold, and neither can know it: the documented limit of this deployment. The
//! mark was lost with the lock, so only the clients' clocks order their tokens. With `WAIT` the
//! first acquisition is refused instead.

use std::time::Duration;

use quorumlock::{Locker, NodeProblem, Replicas, Servers};
use quorumlock_tests::{eventually, granted, mark_key};

use crate::{Fleet, NAME, assert_both_hold, long_timeouts, refusal};

#[tokio::test]
async fn without_wait_both_hold_and_only_clocks_order_their_tokens() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.locker(), fleet.locker());
    was_held_before(&fleet, &first).await;
    fleet.cut(1);
    let guard = granted(&first, NAME).await;
    fleet.fail_over(1).await;
    let mark = fleet.plain[1].mark(NAME).await;
    assert!(mark < Some(guard.token().get()), "the lost writes had the mark: {mark:?}");
    let other = granted(&second, NAME).await;
    // This server accepts any token above its mark: the second token is larger only because of its
    // client's clock.
    assert!(mark < Some(other.token().get()));
    assert_both_hold(&guard, &other);
    // Neither client hears of the other.
    for (guard, locker) in [(&guard, &first), (&other, &second)] {
        let holder = eventually("an answer", async || locker.mutex(NAME).holder().await.ok()).await;
        assert!(holder.is_some_and(|holder| holder.has(other.nonce())), "{guard:?}");
        assert_eq!(guard.check(), Ok(()));
    }
}

#[tokio::test]
async fn with_wait_the_first_is_refused() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let builder = || {
        long_timeouts().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_millis(300))
    };
    let first = builder().on(Servers::replicated(fleet.urls())).expect("good URLs");
    was_held_before(&fleet, &first).await;
    fleet.cut(1);
    let said = refusal(&first).await;
    assert!(matches!(said, NodeProblem::NoReplicas(_)), "{said}");
    fleet.fail_over(1).await;
    drop(granted(&fleet.locker(), NAME).await);
}

/// Holds and releases the name, and waits until everything is copied: the replica has the mark, and
/// the lock is free.
async fn was_held_before(fleet: &Fleet, locker: &Locker) {
    granted(locker, NAME).await.unlock().await.expect("held");
    fleet.copied(mark_key(NAME), 1).await;
    let freed = async || (!fleet.plain[1].exists(NAME).await).then_some(());
    eventually("the release is copied", freed).await;
}
