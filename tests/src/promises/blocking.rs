//! The same promises without async: run on a thread without any runtime.

use std::sync::mpsc;
use std::time::Duration;

use quorumlock::{Error, Owner};

use super::{LONG, NAME};
use crate::bed::in_a_runtime;
use crate::{Bed, PATIENCE, Stopwatch};

/// Behind those who wait, and with a token of its own.
pub fn a_blocking_bump_gives_a_hold_of_its_own(bed: &Bed) {
    let ours = bed.blocking();
    let guard = ours.lock(NAME).lease(LONG).acquire().expect("free");
    let fence = guard.fence();
    let guard = guard.bump().lease(LONG).acquire().expect("free");
    assert!(guard.fence() > fence);
    guard.check().expect("held");
    guard.unlock().expect("held");
}

/// Refused while held, free afterwards, and a larger token for the next.
pub fn blocking_locks_exclude_each_other(bed: &Bed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(LONG).acquire().expect("free");
    assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
    let fence = guard.fence();
    let holder = other.holder(NAME).expect("an answer").expect("held");
    assert!(holder.has(guard.nonce()), "{holder:?} is not {:?}", guard.nonce());
    guard.unlock().expect("unlocked");
    let next = other.lock(NAME).wait(PATIENCE).acquire().expect("free");
    assert!(next.fence() > fence);
}

/// Blocking and async locks are one and the same.
pub fn a_blocking_lock_excludes_an_async_one(bed: &Bed) {
    let guard = bed.blocking().lock(NAME).lease(LONG).acquire().expect("free");
    in_a_runtime(async {
        let other = bed.locker();
        assert!(other.try_lock(NAME).await.expect("an answer").is_none());
        drop(guard);
        drop(other.lock(NAME).wait(PATIENCE).await.expect("dropped guards are released"));
    });
}

/// Nobody calls the library while the holder works, and the lock is kept for five leases.
pub fn a_blocking_hold_is_renewed_between_calls(bed: &Bed) {
    let lease = Duration::from_millis(600);
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(lease).acquire().expect("free");
    let held = Stopwatch::start();
    while held.elapsed() < lease * 5 {
        assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    guard.check().expect("kept");
    guard.unlock().expect("unlocked");
}

/// `Busy` at the bound; and a release wakes a waiting thread.
pub fn a_blocking_wait_ends_at_its_bound_or_by_a_release(bed: &Bed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(LONG).acquire().expect("free");
    let bound = Duration::from_millis(400);
    let watch = Stopwatch::start();
    let answer = other.lock(NAME).wait(bound).acquire();
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    assert!(watch.elapsed() >= bound);
    assert!(watch.elapsed() < PATIENCE);

    let (told, got_in) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let guard = other.lock(NAME).wait(LONG).acquire().expect("free");
        told.send(guard.fence()).expect("heard");
    });
    in_a_runtime(bed.awaits_waiters(NAME));
    let fence = guard.fence();
    drop(guard);
    assert!(got_in.recv_timeout(PATIENCE).expect("woken") > fence);
    waiter.join().expect("no panic");
}

/// Re-entry through an owner, and the end of a limited hold.
pub fn a_blocking_owner_enters_again_and_a_limit_ends_its_hold(bed: &Bed) {
    let (ours, other, owner) = (bed.blocking(), bed.blocking(), Owner::new());
    let limit = Duration::from_millis(500);
    let outer = ours.lock(NAME).hold_at_most(limit).owner(&owner).acquire().expect("free");
    let inner = ours.lock(NAME).hold_at_most(limit).owner(&owner).acquire().expect("ours");
    assert_eq!(outer.fence(), inner.fence());
    drop(other.lock(NAME).wait(PATIENCE).acquire().expect("the limit ends the hold"));
    assert!(outer.check().is_err());
    assert!(inner.check().is_err());
    assert!(matches!(inner.unlock(), Err(Error::Lost(_))));
}

/// They block its thread, as they say, but they need nothing of it.
pub fn blocking_calls_work_inside_a_runtime(bed: &Bed) {
    let (locker, other) = (bed.blocking(), bed.blocking());
    in_a_runtime(async {
        let guard = locker.lock(NAME).lease(LONG).acquire().expect("free");
        assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
        guard.unlock().expect("unlocked");
        let next = other.try_lock(NAME).acquire().expect("an answer");
        drop((next.expect("free"), other));
    });
}
