//! Who can release a lock, and what can be asked about it.

use std::time::Duration;

use quorumlock::{Error, LossReason, Owner};

use super::{LONG_LEASE, NAME, SHORT_LEASE, is_taken_away};
use crate::worker::Ending;
use crate::{Testbed, within};

/// A guard whose lease is over does nothing to the next holder when it is unlocked or dropped.
pub async fn only_the_holder_releases(bed: &Testbed) {
    let (former, next) = (bed.locker(), bed.locker());
    let brief = Duration::from_millis(300);
    let unlocked = former.lock(NAME).hold_at_most(brief).await.expect("free");
    let holder = within("its end", next.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    let answer = unlocked.unlock().await;
    assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");

    let elsewhere = former.lock("invoice/8").hold_at_most(brief).await.expect("free");
    let second = within("its end", next.lock("invoice/8").lease(LONG_LEASE)).await.expect("free");
    drop(elsewhere);
    // Posted releases have been carried out when `close` returns.
    former.close().await;

    for (guard, name) in [(&holder, NAME), (&second, "invoice/8")] {
        assert!(guard.check().is_ok());
        assert!(
            next.mutex(name).is_locked().await.expect("an answer"),
            "{name} was taken from its holder"
        );
    }
}

/// A released lock is not a lost lock: its view reports no loss, so that no work stops.
pub async fn a_watch_of_a_released_lock_tells_nobody_to_stop(bed: &Testbed) {
    let (locker, other) = (bed.locker(), bed.locker());
    let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let view = guard.view();
    assert_eq!(view.loss_ahead(), LossReason::WindowShut, "there is no limit");
    guard.unlock().await.expect("unlocked");
    let ended = within("the end of the hold", view.lost()).await;
    assert_eq!((ended.why, view.loss_ahead()), (LossReason::Released, LossReason::Released));
    let text = ended.to_string();
    assert!(text.contains("released") && !text.contains("stop"), "{text}");

    let guard = locker.lock(NAME).lease(SHORT_LEASE).hold_at_most(SHORT_LEASE).await.expect("free");
    assert_eq!(guard.loss_ahead(), LossReason::HoldLimit);
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    let text = within("the loss", guard.lost()).await.to_string();
    assert!(text.contains("stop the work"), "{text}");
}

/// Dropping a guard releases the lock; the next holder need not wait for the end of the lease.
pub async fn a_dropped_guard_is_released(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let token = guard.token();
    drop(guard);
    let next = within("the dropped lock", other.lock(NAME)).await.expect("free");
    assert!(next.token() > token);
}

/// The lock is released even if the locker is dropped at the same moment, and on every node, not
/// only on a majority.
pub async fn a_guard_dropped_with_its_locker_is_released(bed: &Testbed) {
    for _ in 0..20 {
        let ours = bed.locker();
        let guard = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
        drop(ours);
        assert!(guard.check().is_ok(), "the guard lives without its locker");
        drop(guard);
        bed.awaits_no_key(NAME).await;
    }
}

/// `force_unlock` frees the lock at once; the former holder is told at its next renewal at the latest.
pub async fn a_forced_unlock_frees_and_its_holder_learns_of_it(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(SHORT_LEASE * 2).await.expect("free");
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"), "it was held");
    let next = within("the freed lock", other.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    assert!(next.token() > guard.token());
    let lost = within("the loss", guard.lost()).await;
    assert!(lost.name.as_str() == NAME && is_taken_away(lost.why), "{lost}");
    assert!(guard.check().is_err());
    assert!(guard.valid_for().is_zero());
    drop(guard);
    ours.close().await;
    assert!(next.check().is_ok());
    assert!(other.mutex(NAME).is_locked().await.expect("an answer"));
    next.unlock().await.expect("unlocked");
    assert!(!other.mutex(NAME).force_unlock().await.expect("an answer"), "it was free");
}

/// After a forced unlock the holder's own process can take the lock when the holder hears of the
/// loss, or releases its guard.
pub async fn a_forced_unlock_frees_the_holders_own_process_when_it_gives_back(bed: &Testbed) {
    let locker = bed.locker();
    let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let token = guard.token();
    assert!(locker.mutex(NAME).force_unlock().await.expect("an answer"), "it was held");
    let answer = guard.unlock().await;
    assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
    let next = within("the freed lock", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    assert!(next.token() > token);
}

/// What any client can ask, before, during and after a hold.
pub async fn questions_are_answered(bed: &Testbed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    assert!(!other.mutex(NAME).is_locked().await.expect("an answer"));
    assert_eq!(other.mutex(NAME).holder().await.expect("an answer"), None);
    assert!(!locker.mutex(NAME).is_held_by(&owner).await.expect("an answer"));

    let lease = Duration::from_secs(60);
    let guard = locker.lock(NAME).lease(lease).owner(&owner).await.expect("free");
    assert_eq!(guard.name(), NAME);
    assert!(guard.valid_for() <= lease);
    assert!(guard.valid_for() > lease / 2, "{:?}", guard.valid_for());
    assert!(other.mutex(NAME).is_locked().await.expect("an answer"));
    assert!(locker.mutex(NAME).is_held_by(&owner).await.expect("an answer"));
    assert!(!locker.mutex(NAME).is_held_by(&Owner::new()).await.expect("an answer"));
    let holder = other.mutex(NAME).holder().await.expect("an answer").expect("held");
    let remaining = holder.remaining.expect("a lease ends");
    assert!(remaining <= lease, "{remaining:?}");
    assert!(remaining > lease / 2, "{remaining:?}");
    assert_eq!(holder.holds, 1);
    let again = locker.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert_eq!(again.id, holder.id);
    assert!(again.has(guard.nonce()) && again.has(guard.view().nonce()), "{again:?}");

    guard.unlock().await.expect("unlocked");
    assert!(!locker.mutex(NAME).is_locked().await.expect("an answer"));
    assert!(!locker.mutex(NAME).is_held_by(&owner).await.expect("an answer"));
}

/// A closed locker has carried out all posted releases, and takes no new lock.
pub async fn close_waits_for_posted_releases(bed: &Testbed) {
    let locker = bed.locker();
    let names = (0..20).map(|i| format!("job/{i}")).collect::<Vec<_>>();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(locker.lock(name).lease(LONG_LEASE).await.expect("free"));
    }
    let nodes = bed.live().await;
    bed.pause_all();
    drop(guards);
    let early = tokio::time::timeout(Duration::from_millis(200), locker.close()).await;
    assert!(early.is_err(), "no node can have heard of the releases yet");
    bed.resume_all();
    within("all releases", locker.close()).await;
    for node in nodes {
        for name in &names {
            assert!(!node.exists(name).await, "{name} is still on {node:?}");
        }
    }
    let late = locker.lock(NAME).await;
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
}

/// A process that ends with a lock, in any way that runs its drops, leaves none behind.
pub async fn a_process_that_ends_early_leaves_no_lock(bed: &Testbed) {
    let next = bed.locker();
    for ending in Ending::ALL {
        let status = bed.ends(NAME, LONG_LEASE, ending).await;
        let fails = matches!(ending, Ending::Fails | Ending::Panics);
        assert_eq!(status.success(), !fails, "{ending:?}: {status}");
        let free = next.try_lock(NAME).await.expect("an answer");
        let guard = free.unwrap_or_else(|| panic!("{ending:?} left the lock"));
        guard.unlock().await.expect("held");
    }
}
