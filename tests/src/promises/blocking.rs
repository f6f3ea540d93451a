//! The promises of the blocking API. They run on a thread without a runtime.

use std::sync::mpsc;
use std::time::Duration;

use quorumlock::{Error, Owner};

use super::{LONG_LEASE, NAME, RENEWED_LEASE};
use crate::testbed::in_a_runtime;
use crate::{MAX_WAIT, Stopwatch, Testbed};

/// A lock is refused while it is held and free after its release, and the next holder has a larger
/// token.
pub fn blocking_locks_exclude_each_other(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(LONG_LEASE).acquire().expect("free");
    assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
    let token = guard.token();
    let holder = other.mutex(NAME).holder().expect("an answer").expect("held");
    assert!(holder.has(guard.nonce()), "{holder:?} is not {:?}", guard.nonce());
    guard.unlock().expect("unlocked");
    let next = other.lock(NAME).wait(MAX_WAIT).acquire().expect("free");
    assert!(next.token() > token);
}

/// A blocking holder keeps an async caller out.
pub fn a_blocking_lock_excludes_an_async_one(bed: &Testbed) {
    let guard = bed.blocking().lock(NAME).lease(LONG_LEASE).acquire().expect("free");
    in_a_runtime(async {
        let other = bed.locker();
        assert!(other.try_lock(NAME).await.expect("an answer").is_none());
        drop(guard);
        drop(other.lock(NAME).wait(MAX_WAIT).await.expect("dropped guards are released"));
    });
}

/// The watchdog renews the lock for two leases while the holder makes no call.
pub fn a_blocking_hold_is_renewed_between_calls(bed: &Testbed) {
    let lease = RENEWED_LEASE;
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(lease).acquire().expect("free");
    let held = Stopwatch::start();
    while held.elapsed() < lease * 2 {
        assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    guard.check().expect("kept");
    guard.unlock().expect("unlocked");
}

/// A blocking wait ends with `Busy` at its bound, and a release wakes a waiting thread.
pub fn a_blocking_wait_ends_at_its_bound_or_by_a_release(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let guard = ours.lock(NAME).lease(LONG_LEASE).acquire().expect("free");
    let bound = Duration::from_millis(400);
    let watch = Stopwatch::start();
    let answer = other.lock(NAME).wait(bound).acquire();
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    assert!(watch.elapsed() >= bound);
    assert!(watch.elapsed() < MAX_WAIT);

    let (told, got_in) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let guard = other.lock(NAME).wait(LONG_LEASE).acquire().expect("free");
        told.send(guard.token()).expect("heard");
    });
    in_a_runtime(bed.awaits_waiters(NAME));
    let token = guard.token();
    drop(guard);
    assert!(got_in.recv_timeout(MAX_WAIT).expect("woken") > token);
    waiter.join().expect("no panic");
}

/// What the async handle, request and guard do, without async.
pub fn a_blocking_mutex_runs_work_renews_and_tells_of_its_loss(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    ours.ping().expect("a majority answers");
    let (mutex, rival) = (ours.mutex(NAME), other.mutex(NAME));
    assert_eq!(mutex.name(), NAME);
    let out = mutex.lock().wait(MAX_WAIT).lease(LONG_LEASE).run(|lock| {
        assert!(lock.is_valid());
        assert!(rival.try_lock().run(|_| ()).expect("an answer").is_none());
        let late = rival.lock().wait(Duration::from_millis(50)).acquire();
        assert!(late.expect_err("held").is_busy());
        7
    });
    assert_eq!(out.expect("done"), 7);
    let guard = rival.lock().wait(MAX_WAIT).lease(LONG_LEASE).acquire().expect("released");
    guard.renew().expect("renewed");
    assert!(guard.is_valid() && !guard.is_at_risk());
    let token = guard.cancellation_token();
    assert!(ours.mutex(NAME).force_unlock().expect("an answer"));
    let refused = guard.renew().expect_err("lost");
    assert!(matches!(refused, Error::Lost(_)), "{refused:?}");
    assert_eq!(guard.lost().expect("told").why, guard.loss_ahead());
    assert!(token.is_cancelled() && !guard.is_valid());
}

/// Re-entry through an owner, and the end of a limited hold.
pub fn a_blocking_owner_enters_again_and_a_limit_ends_its_hold(bed: &Testbed) {
    let (ours, other, owner) = (bed.blocking(), bed.blocking(), Owner::new());
    let limit = Duration::from_millis(500);
    let outer = ours.lock(NAME).hold_at_most(limit).owner(&owner).acquire().expect("free");
    let inner = ours.lock(NAME).hold_at_most(limit).owner(&owner).acquire().expect("ours");
    assert_eq!(outer.token(), inner.token());
    drop(other.lock(NAME).wait(MAX_WAIT).acquire().expect("the limit ends the hold"));
    assert!(outer.check().is_err());
    assert!(inner.check().is_err());
    assert!(matches!(inner.unlock(), Err(Error::Lost(_))));
}

/// Blocking calls inside a runtime block the thread, and need nothing else of the runtime.
pub fn blocking_calls_work_inside_a_runtime(bed: &Testbed) {
    let (locker, other) = (bed.blocking(), bed.blocking());
    in_a_runtime(async {
        let guard = locker.lock(NAME).lease(LONG_LEASE).acquire().expect("free");
        assert!(other.try_lock(NAME).acquire().expect("an answer").is_none());
        guard.unlock().expect("unlocked");
        // It waits for the node that has not confirmed the release yet, if there is one.
        let next = other.lock(NAME).wait(MAX_WAIT).acquire();
        drop((next.expect("free"), other));
    });
}
