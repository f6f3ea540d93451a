//! Redisson's `RLock` on one server.

use std::time::Duration;

use quorumlock::{Locker, Owner};
use quorumlock_tests::{eventually, within};

use crate::testbed::{LONG_LEASE, SHORT_LEASE, Testbed, channel, comes_after};

const NAME: &str = "invoice/7";
const NOW: Duration = Duration::ZERO;

/// Makes each function a test of its own beside every pinned version.
macro_rules! beside_redisson {
    ($($test:ident),* $(,)?) => {
        mod redisson_3_52 { $(#[tokio::test] async fn $test() { super::$test("redisson-3.52.0").await })* }
        mod redisson_4_7 { $(#[tokio::test] async fn $test() { super::$test("redisson-4.7.0").await })* }
    };
}
pub(crate) use beside_redisson;

beside_redisson! {
    each_refuses_what_the_other_holds,
    each_is_woken_by_the_others_release,
    watchdogs_hold_through_five_leases_while_others_want_the_lock,
    a_forced_unlock_is_seen_as_loss,
    hold_counts_are_read_across,
    a_lease_that_is_not_renewed_ends,
    what_a_killed_process_held_is_free_when_its_lease_ends,
    a_dead_waiter_in_front_harms_nobody,
}

async fn start(redisson: &str, lease: Duration) -> Option<Testbed> {
    Testbed::start(redisson, "redisson", 1, lease).await
}

async fn each_refuses_what_the_other_holds(redisson: &str) {
    let Some(bed) = start(redisson, LONG_LEASE).await else { return };
    let (ours, theirs) = bed.both().await;
    let (ours, theirs) = (ours.caller("a", NAME), theirs.caller("b", NAME));
    for _ in 0..3 {
        theirs.lock().await.granted();
        ours.try_lock(NOW).await.refused();
        theirs.unlock().await.granted();

        ours.lock().await.granted();
        theirs.try_lock(NOW).await.refused();
        // Redisson cannot release it either: it reports that the thread does not hold the lock.
        assert!(matches!(theirs.unlock().await.reply, crate::client::Reply::Error(_)));
        assert!(ours.holds().await);
        ours.unlock().await.granted();
    }
}

async fn each_is_woken_by_the_others_release(redisson: &str) {
    let Some(bed) = start(redisson, LONG_LEASE).await else { return };
    let (ours, theirs) = bed.both().await;
    let (ours, theirs) = (ours.caller("a", NAME), theirs.caller("b", NAME));
    theirs.lock().await.granted();
    // Our client polls, too, so its grant alone does not prove that it got a message.
    let mut messages = bed.plain.listen(&channel(NAME)).await;
    let release = async {
        bed.awaits_listeners(NAME, 2).await;
        theirs.unlock().await.granted();
    };
    comes_after("we are woken", ours.lock(), release).await.granted();
    assert_eq!(messages.next().await, "0");
    drop(messages);

    bed.awaits_no_listener(NAME).await;
    let release = async {
        bed.awaits_listeners(NAME, 1).await;
        ours.unlock().await.granted();
    };
    comes_after("they are woken", theirs.lock(), release).await.granted();
}

async fn watchdogs_hold_through_five_leases_while_others_want_the_lock(redisson: &str) {
    let Some(bed) = start(redisson, SHORT_LEASE).await else { return };
    let (ours, theirs) = bed.both().await;
    let held_by_us = (ours.caller("a", "ours"), theirs.caller("b", "ours"));
    let held_by_them = (theirs.caller("c", "theirs"), ours.caller("d", "theirs"));
    for (holder, other) in [held_by_us, held_by_them] {
        holder.lock().await.granted();
        other.try_lock(NOW).await.refused();
    }
    let five = SHORT_LEASE * 5;
    let (theirs_waited, ours_waited) =
        tokio::join!(held_by_us.1.try_lock(five), held_by_them.1.try_lock(five));
    theirs_waited.refused();
    ours_waited.refused();
    assert!(theirs_waited.took >= five && ours_waited.took >= five);
    for (holder, _) in [held_by_us, held_by_them] {
        assert!(holder.holds().await);
        holder.unlock().await.granted();
    }
}

async fn a_forced_unlock_is_seen_as_loss(redisson: &str) {
    let Some(bed) = start(redisson, SHORT_LEASE).await else { return };
    let (ours, theirs) = bed.both().await;
    let (ours, theirs) = (ours.caller("a", NAME), theirs.caller("b", NAME));
    ours.lock().await.granted();
    theirs.force().await.granted();
    eventually("our holder learns of it", async || (!ours.holds().await).then_some(())).await;
    ours.unlock().await.refused();

    theirs.lock().await.granted();
    ours.force().await.granted();
    assert!(!theirs.holds().await);
    ours.lock().await.granted();
}

async fn hold_counts_are_read_across(redisson: &str) {
    let Some(bed) = start(redisson, LONG_LEASE).await else { return };
    let theirs = bed.theirs().await;
    let theirs = theirs.caller("b", NAME);
    let locker = Locker::single(bed.servers[0].url()).expect("a good URL");
    theirs.lock().await.granted();
    theirs.lock().await.granted();
    let holder = locker.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert_eq!(holder.holds, 2);
    theirs.unlock().await.granted();
    let holder = locker.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert_eq!(holder.holds, 1);
    assert!(locker.try_lock(NAME).await.expect("an answer").is_none());
    theirs.unlock().await.granted();

    let owner = Owner::new();
    let outer = locker.lock(NAME).owner(&owner).await.expect("free");
    let inner = locker.lock(NAME).owner(&owner).await.expect("ours");
    eventually("the count is there", async || {
        let counts: Vec<String> = bed.plain.ask(&["HVALS", NAME]).await;
        (counts == ["2"]).then_some(())
    })
    .await;
    inner.unlock().await.expect("held");
    theirs.try_lock(NOW).await.refused();
    outer.unlock().await.expect("held");
    theirs.try_lock(NOW).await.granted();
}

async fn a_lease_that_is_not_renewed_ends(redisson: &str) {
    let Some(bed) = start(redisson, LONG_LEASE).await else { return };
    let (ours, theirs) = bed.both().await;
    let (ours, theirs) = (ours.caller("a", NAME), theirs.caller("b", NAME));
    theirs.try_lock_for(NOW, SHORT_LEASE).await.granted();
    let granted = within("their lease ends", ours.lock()).await;
    granted.granted();
    assert!(granted.took >= SHORT_LEASE / 2, "{:?}", granted.took);
    ours.unlock().await.granted();

    ours.try_lock_for(NOW, SHORT_LEASE).await.granted();
    let granted = within("our lease ends", theirs.lock()).await;
    granted.granted();
    assert!(granted.took >= SHORT_LEASE / 2, "{:?}", granted.took);
}

async fn what_a_killed_process_held_is_free_when_its_lease_ends(redisson: &str) {
    let lease = SHORT_LEASE * 2;
    let Some(bed) = start(redisson, lease).await else { return };
    let ((mut ours, theirs), (other_ours, mut other_theirs)) = tokio::join!(bed.both(), bed.both());
    ours.caller("a", "of-ours").lock().await.granted();
    other_theirs.caller("b", "of-theirs").lock().await.granted();
    // By then both have renewed at least once.
    tokio::time::sleep(lease / 2).await;
    tokio::join!(ours.kill(), other_theirs.kill());
    let (after_ours, after_theirs) = tokio::join!(
        within("our lease ends", theirs.caller("c", "of-ours").lock()),
        within("their lease ends", other_ours.caller("d", "of-theirs").lock()),
    );
    for granted in [after_ours, after_theirs] {
        granted.granted();
        assert!(granted.took >= lease / 3, "not before: {:?}", granted.took);
    }
}

async fn a_dead_waiter_in_front_harms_nobody(redisson: &str) {
    let Some(bed) = start(redisson, LONG_LEASE).await else { return };
    let ((ours, theirs), (mut our_dead, mut their_dead)) = tokio::join!(bed.both(), bed.both());
    let other_ours = bed.ours().await;
    // A Redisson waiter dies ahead of our waiter.
    ours.caller("holder", NAME).lock().await.granted();
    tokio::select! {
        _ = their_dead.caller("dead", NAME).lock() => panic!("it is held"),
        () = bed.awaits_listeners(NAME, 1) => {}
    }
    let release = async {
        bed.awaits_ours(NAME).await;
        their_dead.kill().await;
        ours.caller("holder", NAME).unlock().await.granted();
    };
    let waiter = other_ours.caller("waiter", NAME);
    comes_after("ours", waiter.lock(), release).await.granted();

    // Our waiter dies ahead of a Redisson waiter.
    tokio::select! {
        _ = our_dead.caller("dead", NAME).lock() => panic!("it is held"),
        () = bed.awaits_ours(NAME) => {}
    }
    let listeners = bed.listeners(NAME).await;
    let release = async {
        bed.awaits_listeners(NAME, listeners + 1).await;
        our_dead.kill().await;
        waiter.unlock().await.granted();
    };
    let their_waiter = theirs.caller("waiter", NAME);
    comes_after("theirs", their_waiter.lock(), release).await.granted();
}
