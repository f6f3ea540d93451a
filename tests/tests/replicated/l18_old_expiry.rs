//! L18: the lock is copied and its renewals are not, so the promoted replica has the old expiry
//! (`SAFETY.md` H12, REP2). If renewals did not wait for replicas, both could hold.

use quorumlock::{Replicas, Servers};
use std::time::Duration;

use quorumlock_tests::{Stopwatch, eventually, granted, within};

use crate::{Fleet, NAME, assert_both_hold, long_timeouts};

const LEASE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn without_wait_both_hold() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.locker(), fleet.locker());
    let guard = within("a free lock", first.lock(NAME).lease(LEASE)).await.expect("free");
    fleet.copied(NAME, 1).await;
    fleet.cut(1);
    let gone = async || (!fleet.plain[1].exists(NAME).await).then_some(());
    eventually("the replica's copy has ended", gone).await;
    assert_eq!(guard.check(), Ok(()), "renewed at the master");
    fleet.fail_over(1).await;
    let other = granted(&second, NAME).await;
    assert_both_hold(&guard, &other);
}

#[tokio::test]
async fn with_wait_the_first_is_told_before_the_copy_ends() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let builder =
        long_timeouts().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_secs(2));
    let first = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    let second = fleet.locker();
    let guard = within("a free lock", first.lock(NAME).lease(LEASE)).await.expect("free");
    assert!(fleet.plain[1].exists(NAME).await);
    // Renewals count as long as they are copied.
    let since = Stopwatch::start();
    eventually("longer than a lease", async || (since.elapsed() > LEASE).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));

    fleet.cut(1);
    eventually("lengthened at the master alone", async || {
        let [master, copy] = [fleet.plain[0].pttl(NAME).await, fleet.plain[1].pttl(NAME).await];
        (master > copy + 500).then_some(())
    })
    .await;
    let copy_ends = async || (!fleet.plain[1].exists(NAME).await).then_some(());
    eventually("the replica's copy has ended", copy_ends).await;
    assert!(guard.check().is_err(), "what is not copied is no renewal");
    fleet.fail_over(1).await;
    drop(granted(&second, NAME).await);
}
