//! A lock is given back and taken again, behind those who wait.

use std::future::IntoFuture as _;
use std::time::Duration;

use futures::FutureExt as _;
use quorumlock::{Error, Loss, Owner};

use super::{LONG, NAME};
use crate::{Bed, Drops, Polls, within};

/// The hold before has ended, and what was written under it is older.
pub async fn a_bump_gives_a_hold_of_its_own(bed: &Bed) {
    let locker = bed.locker();
    let mut guard = locker.lock(NAME).lease(LONG).await.expect("free");
    for _ in 0..5 {
        let (fence, nonce, watch) = (guard.fence(), guard.nonce(), guard.watch());
        guard = within("nobody else wants it", guard.bump().lease(LONG)).await.expect("free");
        assert_eq!(watch.check().expect_err("its hold has ended").why, Loss::Released);
        assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
        assert_ne!(guard.nonce(), nonce);
        guard.check().expect("held");
        let holder = locker.holder(NAME).await.expect("an answer").expect("held");
        assert!(holder.has(guard.nonce()));
    }
    guard.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
    bed.awaits_no_waiter(NAME).await;
}

/// Of this process and of others: each has its turn, and nobody has it at the same time.
pub async fn those_who_wait_have_their_turn_too(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for waits in [&ours, &other] {
        let guard = ours.lock(NAME).lease(LONG).await.expect("free");
        let fence = guard.fence();
        let turn = async {
            let turn = waits.lock(NAME).lease(LONG).await.expect("its turn");
            turn.check().expect("held");
            let fence = turn.fence();
            turn.unlock().await.expect("held");
            fence
        };
        let mut turn = Box::pin(turn);
        if std::ptr::eq(waits, &ours) {
            assert!((&mut turn).now_or_never().is_none(), "it is held");
        } else {
            tokio::select! {
                biased;
                fence = &mut turn => panic!("it is held: {fence}"),
                () = bed.awaits_waiters(NAME) => {}
            }
        }
        // On a quorum who bumps may be first: it has the lock for no longer than the other one.
        let bump = async {
            let again = guard.bump().lease(LONG).await.expect("its turn");
            again.check().expect("held");
            let fence = again.fence();
            again.unlock().await.expect("held");
            fence
        };
        let (other, again) = within("their turns", futures::future::join(turn, bump)).await;
        assert!(other > fence && again > fence && again != other);
    }
    bed.awaits_no_key(NAME).await;
}

/// Begun is as good as done: the lock is given back, and no longer asked for.
pub async fn a_bump_dropped_anywhere_leaves_nothing_behind(bed: &Bed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for drops in [Drops::AtOnce, Drops::OnWake] {
        for polls in 0.. {
            assert!(polls < 200, "never done");
            let guard = within("a free lock", ours.lock(NAME).lease(LONG)).await.expect("free");
            let bump = Polls::new(guard.bump().lease(LONG), polls, drops);
            let guard = within("an end", bump).await;
            let done = guard.is_some();
            drop(guard.transpose().expect("free"));
            bed.awaits_no_key(NAME).await;
            bed.awaits_no_waiter(NAME).await;
            drop(within("a free lock", other.lock(NAME)).await.expect("free"));
            if done {
                break;
            }
        }
    }
}

/// Whoever worked without a lock is told so, and gets none.
pub async fn a_bump_of_a_lost_lock_takes_nothing(bed: &Bed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG).await.expect("free");
    for node in bed.live().await {
        let _: i64 = node.ask(&["DEL", NAME]).await;
    }
    let answer = guard.bump().await;
    assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
    bed.awaits_no_key(NAME).await;
    bed.awaits_no_waiter(NAME).await;
}

/// Others of the owner rely on it: it is not given back.
pub async fn a_lock_that_others_of_its_owner_share_stays_held(bed: &Bed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let take = || locker.lock(NAME).lease(LONG).owner(&owner);
    let outer = take().await.expect("free");
    let inner = take().await.expect("ours");
    let inner = within("ours", inner.bump()).await.expect("ours");
    assert_eq!((inner.nonce(), inner.fence()), (outer.nonce(), outer.fence()));
    assert_eq!(outer.hold_count(), 2);
    drop(inner);
    let fence = outer.fence();
    let alone = within("free", outer.bump().lease(LONG)).await.expect("free");
    assert!(alone.fence() > fence);
    let again = take().await.expect("it is the owner's still");
    assert_eq!(again.fence(), alone.fence());
}

/// As `lock` does: a free lock needs no wait.
pub async fn a_bump_that_may_not_wait_takes_a_free_lock(bed: &Bed) {
    let locker = bed.locker();
    let mut guard = locker.lock(NAME).lease(LONG).await.expect("free");
    for _ in 0..5 {
        let bump = guard.bump().lease(LONG).wait(Duration::ZERO);
        guard = within("an answer", bump).await.expect("free");
        guard.check().expect("held");
    }
    guard.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
    bed.awaits_no_waiter(NAME).await;
}

/// Its wait has a bound, too; then nobody here holds the lock for it.
pub async fn a_bump_waits_no_longer_than_it_may(bed: &Bed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG).await.expect("free");
    let mut waiting = locker.lock(NAME).lease(LONG).into_future();
    assert!((&mut waiting).now_or_never().is_none(), "it is held");
    let bump = guard.bump().lease(LONG).wait(Duration::from_millis(300)).into_future();
    // Whoever is given the lock keeps it for longer than that.
    let (answer, held) = within("both", futures::future::join(bump, waiting)).await;
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    let held = held.expect("its turn");
    held.check().expect("held");
    held.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
    bed.awaits_no_waiter(NAME).await;
}
