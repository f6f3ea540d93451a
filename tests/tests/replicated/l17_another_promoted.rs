//! L17: one of two replicas acknowledges, and the other is promoted (`SAFETY.md` H12, REP1).
//! Waiting for one replica does not help; waiting for both refuses the grant.

use std::time::Duration;

use quorumlock::{NodeProblem, Replicas, Servers};

use quorumlock_tests::granted;

use crate::{Fleet, NAME, assert_both_hold, long_timeouts, refusal};

#[tokio::test]
async fn one_acknowledgement_of_two_lets_both_hold() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let builder =
        long_timeouts().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_secs(2));
    let first = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    granted(&first, "before").await.unlock().await.expect("held");
    fleet.cut(2);
    let guard = granted(&first, NAME).await;
    assert!(fleet.plain[1].exists(NAME).await && !fleet.plain[2].exists(NAME).await);
    fleet.fail_over(2).await;
    let other = granted(&fleet.locker(), NAME).await;
    assert_both_hold(&guard, &other);
}

#[tokio::test]
async fn all_acknowledgements_are_wanted_and_one_is_missing() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let builder =
        long_timeouts().replicas(Replicas::AtLeast(2)).replica_timeout(Duration::from_millis(300));
    let first = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    granted(&first, "before").await.unlock().await.expect("held");
    fleet.cut(2);
    let said = refusal(&first).await;
    let NodeProblem::NoReplicas(text) = &said else { panic!("{said:?}") };
    assert!(text.contains("1 of 2"), "{said}");
}
