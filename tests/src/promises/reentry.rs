//! Re-entry happens through the same owner only (SAFETY.md G8).

use quorumlock::{ConfigError, Error, Owner};

use super::{LONG, NAME, SHORT};
use crate::{Bed, within};

/// Two guards of one owner share lease, count and token; the last one releases.
pub async fn an_owner_enters_again_and_its_last_guard_releases(bed: &Bed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(LONG).owner(&owner).await.expect("free");
    assert_eq!(outer.hold_count(), 1);
    let inner =
        within("re-entry", locker.lock(NAME).lease(LONG).owner(&owner)).await.expect("ours");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(outer.fence(), inner.fence());

    // The outer one goes first: guards of one lease are equal, whichever came first.
    outer.unlock().await.expect("unlocked");
    assert_eq!(inner.hold_count(), 1);
    assert!(inner.check().is_ok());
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "one guard is left");

    let fence = inner.fence();
    inner.unlock().await.expect("unlocked");
    let next = within("a free lock", other.lock(NAME)).await.expect("free");
    assert!(next.fence() > fence);
}

/// Dropped guards count as well as unlocked ones.
pub async fn a_dropped_inner_guard_leaves_the_outer_one_its_lock(bed: &Bed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(LONG).owner(&owner).await.expect("free");
    let inner = locker.try_lock(NAME).lease(LONG).owner(&owner).await.expect("an answer");
    drop(inner.expect("ours"));
    assert_eq!(outer.hold_count(), 1);
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "the outer guard is left");
    drop(outer);
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
}

/// The same task, locker and name, but no owner, or another one: no re-entry.
pub async fn without_its_owner_nobody_enters_again(bed: &Bed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    for guard in [
        locker.lock(NAME).lease(LONG).await.expect("free"),
        locker.lock("invoice/8").lease(LONG).owner(&owner).await.expect("free"),
    ] {
        let name = guard.name().to_owned();
        let nobody = locker.try_lock(&name).await.expect("an answer");
        assert!(nobody.is_none(), "no owner entered {name}");
        let stranger = locker.try_lock(&name).owner(&Owner::new()).await.expect("an answer");
        assert!(stranger.is_none(), "another owner entered {name}");
        assert_eq!(guard.hold_count(), 1);
    }
}

/// Whoever enters again shares the outer hold: another lease or limit is an error that names both,
/// and the outer hold stays as it is.
pub async fn an_owner_who_enters_again_cannot_ask_for_another_hold(bed: &Bed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let (limit, other) = (LONG * 10, LONG / 2);
    let lock = |name: &str| locker.lock(name).owner(&owner);
    let plain = lock(NAME).lease(LONG).await.expect("free");
    let limited = lock("invoice/8").lease(LONG).hold_at_most(limit).await.expect("free");
    let short = lock("invoice/9").lease(LONG).hold_at_most(other).await.expect("free");
    for (refused, option, values) in [
        (lock(NAME).lease(other), "lease", (other, Some(LONG))),
        (lock(NAME).hold_at_most(limit), "hold_at_most", (limit, None)),
        (lock("invoice/8").hold_at_most(limit / 2), "hold_at_most", (limit / 2, Some(limit))),
        (lock("invoice/9").lease(other / 2), "lease", (other / 2, Some(other))),
    ] {
        let error = within("an answer", refused).await.expect_err("another hold");
        let Error::Config(ConfigError::ReEntryDiffers { what, asked, held, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((what, (asked, held)), (option, values));
        let named = |value| error.to_string().contains(&format!("{value:?}"));
        assert!(named(asked) && held.is_none_or(named), "{error}");
    }
    for same in [
        lock(NAME),
        lock(NAME).lease(LONG),
        lock("invoice/8"),
        lock("invoice/8").lease(LONG).hold_at_most(limit),
        lock("invoice/9").lease(LONG).hold_at_most(other),
        lock("invoice/9").hold_at_most(other),
    ] {
        drop(within("re-entry", same).await.expect("what it has"));
    }
    for outer in [plain, limited, short] {
        assert_eq!(outer.hold_count(), 1);
        outer.unlock().await.expect("still held");
    }
}

/// Never a silent new acquisition behind the back of an outer hold whose lock was lost.
pub async fn an_owner_whose_lock_was_lost_is_told_so_and_enters_no_new_one(bed: &Bed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(SHORT).owner(&owner).await.expect("free");
    assert!(other.force_unlock(NAME).await.expect("an answer"));
    within("the loss", outer.lost()).await;

    let inner = within("an answer", locker.lock(NAME).owner(&owner)).await;
    assert!(matches!(inner, Err(Error::Lost(_))), "{inner:?}");
    drop(outer);
    let anew = within("a free lock", locker.lock(NAME).owner(&owner)).await.expect("free");
    assert_eq!(anew.hold_count(), 1);
}

/// Tasks that ask at the same moment through one owner all get in, into one lease.
pub async fn tasks_of_one_owner_share_its_lease(bed: &Bed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let tasks = (0..8).map(|_| {
        let (locker, owner) = (locker.clone(), owner.clone());
        tokio::spawn(async move { locker.lock(NAME).lease(LONG).owner(&owner).await })
    });
    let mut guards = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        guards.push(within("shared entry", task).await.expect("no panic").expect("ours"));
    }
    assert!(guards.iter().all(|guard| guard.hold_count() == 8));
    assert!(guards.iter().all(|guard| guard.fence() == guards[0].fence()));
    drop(guards);
    drop(within("a free lock", bed.locker().lock(NAME)).await.expect("free"));
}
