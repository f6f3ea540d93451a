//! Re-entry happens through the same owner only (SAFETY.md G8).

use std::future::IntoFuture;

use quorumlock::{ConfigError, Error, Owner};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Testbed, eventually, within};

/// Two guards of one owner share lease, count and token; the last one releases.
pub async fn an_owner_enters_again_and_its_last_guard_releases(bed: &Testbed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("free");
    assert_eq!(outer.hold_count(), 1);
    let inner =
        within("re-entry", locker.lock(NAME).lease(LONG_LEASE).owner(&owner)).await.expect("ours");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(outer.token(), inner.token());

    // The outer guard is unlocked first: guards of one lease are equal, whichever came first.
    outer.unlock().await.expect("unlocked");
    assert_eq!(inner.hold_count(), 1);
    assert!(inner.check().is_ok());
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "one guard is left");

    let token = inner.token();
    inner.unlock().await.expect("unlocked");
    let next = within("a free lock", other.lock(NAME)).await.expect("free");
    assert!(next.token() > token);
}

/// Dropped guards count as well as unlocked ones.
pub async fn a_dropped_inner_guard_leaves_the_outer_one_its_lock(bed: &Testbed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("free");
    let inner = locker.try_lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("an answer");
    drop(inner.expect("ours"));
    assert_eq!(outer.hold_count(), 1);
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "the outer guard is left");
    drop(outer);
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
}

/// The same task, locker and name, but no owner or another owner: there is no re-entry.
pub async fn without_its_owner_nobody_enters_again(bed: &Testbed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    for guard in [
        locker.lock(NAME).lease(LONG_LEASE).await.expect("free"),
        locker.lock("invoice/8").lease(LONG_LEASE).owner(&owner).await.expect("free"),
    ] {
        let name = guard.name().to_owned();
        let nobody = locker.try_lock(&name).await.expect("an answer");
        assert!(nobody.is_none(), "no owner entered {name}");
        let other_owner = locker.try_lock(&name).owner(&Owner::new()).await.expect("an answer");
        assert!(other_owner.is_none(), "another owner entered {name}");
        assert_eq!(guard.hold_count(), 1);
    }
}

/// A re-entry shares the outer hold: another lease or limit is an error that names both values, and
/// the outer hold stays as it is.
pub async fn an_owner_who_enters_again_cannot_ask_for_another_hold(bed: &Testbed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let (limit, other) = (LONG_LEASE * 10, LONG_LEASE / 2);
    let lock = |name: &str| locker.lock(name).owner(&owner);
    let plain = lock(NAME).lease(LONG_LEASE).await.expect("free");
    let limited = lock("invoice/8").lease(LONG_LEASE).hold_at_most(limit).await.expect("free");
    let short = lock("invoice/9").lease(LONG_LEASE).hold_at_most(other).await.expect("free");
    for (refused, option, values) in [
        (lock(NAME).lease(other), "lease", (other, Some(LONG_LEASE))),
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
        lock(NAME).lease(LONG_LEASE),
        lock("invoice/8"),
        lock("invoice/8").lease(LONG_LEASE).hold_at_most(limit),
        lock("invoice/9").lease(LONG_LEASE).hold_at_most(other),
        lock("invoice/9").hold_at_most(other),
    ] {
        drop(within("re-entry", same).await.expect("what it has"));
    }
    for outer in [plain, limited, short] {
        assert_eq!(outer.hold_count(), 1);
        outer.unlock().await.expect("still held");
    }
}

/// Names that an owner holds exclude other sets of them: it would wait for itself, and is told so. It
/// enters the same set again, and takes sets that have no name in common.
pub async fn an_owner_never_waits_for_its_own_names(bed: &Testbed) {
    let [a, b, c, d] = ["{account}/a", "{account}/b", "{account}/c", "{account}/d"];
    let (locker, owner) = (bed.locker(), Owner::new());
    let take = |names: &[&str]| locker.lock(names).lease(LONG_LEASE).owner(&owner);
    let refused = |result: Result<bool, Error>, (by, shared): (&str, &[&str])| match result {
        Err(Error::Config(ConfigError::OwnerOverlap { held, common, .. })) => {
            assert_eq!((&*held, common.join(" ")), (by, shared.join(" ")));
        }
        other => panic!("{other:?}"),
    };
    let set = within("free", take(&[a, b])).await.expect("free");
    let both = format!("{a}, {b}");
    let got = within("an answer", locker.lock(a).owner(&owner)).await.map(|_| true);
    refused(got, (&both, &[a]));
    let got = within("an answer", take(&[c, b])).await.map(|_| true);
    refused(got, (&both, &[b]));
    let got = within("an answer", locker.try_lock([a, b, c]).owner(&owner)).await;
    refused(got.map(|guard| guard.is_some()), (&both, &[a, b]));
    let again = within("its own", take(&[b, a])).await.expect("its own");
    let disjoint = within("free", take(&[c, d])).await.expect("free");
    let other_owner = locker.try_lock(a).owner(&Owner::new()).await.expect("an answer");
    assert!(other_owner.is_none(), "another owner entered");
    for guard in [set, again, disjoint] {
        guard.unlock().await.expect("held");
    }
    let one = within("given back", locker.lock(a).lease(LONG_LEASE).owner(&owner)).await;
    let one = one.expect("given back");
    // The owner holds it also while another of its tasks enters again, which no node answers.
    bed.pause_all();
    let again = tokio::spawn(locker.lock(a).owner(&owner).into_future());
    eventually("another guard", async || (one.hold_count() == 2).then_some(())).await;
    let got = within("an answer", take(&[a, b])).await.map(|_| true);
    refused(got, (a, &[a]));
    bed.resume_all();
    drop(within("its own", again).await.expect("no panic"));
    drop(one);
    within("free", take(&[a, b])).await.expect("free").unlock().await.expect("held");
}

/// An owner whose outer hold was lost gets an error, never a silent new acquisition.
pub async fn an_owner_whose_lock_was_lost_is_told_so_and_enters_no_new_one(bed: &Testbed) {
    let (locker, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let outer = locker.lock(NAME).lease(SHORT_LEASE).owner(&owner).await.expect("free");
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    within("the loss", outer.lost()).await;

    let inner = within("an answer", locker.lock(NAME).owner(&owner)).await;
    assert!(matches!(inner, Err(Error::Lost(_))), "{inner:?}");
    drop(outer);
    let anew = within("a free lock", locker.lock(NAME).owner(&owner)).await.expect("free");
    assert_eq!(anew.hold_count(), 1);
}

/// Tasks that ask at the same moment through one owner all enter one lease.
pub async fn tasks_of_one_owner_share_its_lease(bed: &Testbed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let tasks = (0..8).map(|_| {
        let (locker, owner) = (locker.clone(), owner.clone());
        tokio::spawn(async move { locker.lock(NAME).lease(LONG_LEASE).owner(&owner).await })
    });
    let mut guards = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        guards.push(within("shared entry", task).await.expect("no panic").expect("ours"));
    }
    assert!(guards.iter().all(|guard| guard.hold_count() == 8));
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
    drop(guards);
    drop(within("a free lock", bed.locker().lock(NAME)).await.expect("free"));
}
