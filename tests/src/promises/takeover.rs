//! The takeover delay (docs/PROTOCOL.md WIN3).

use std::time::Duration;

use quorumlock::{Error, Guard, Locker};
use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;

use super::{NAME, SHORT_LEASE};
use crate::{Testbed, within};

const DELAY: Duration = Duration::from_millis(1_200);

/// Longer than any test. The longest lease is a minute, and the delay is added to it.
const LONG_LEASE: Duration = Duration::from_secs(50);

fn locker(bed: &Testbed) -> Locker {
    bed.build(bed.builder().takeover_delay(DELAY))
}

/// Uses the lock until it is lost. Returns when its holder could last rely on it.
async fn use_until_lost(guard: &Guard, clock: &Clock) -> Instant {
    let mut last = clock.now();
    loop {
        let now = clock.now();
        if guard.check().is_err() {
            return last;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Nobody gets a lost lock within the delay, whatever its holder does with the guard.
pub async fn a_lost_lock_is_not_taken_within_the_delay(bed: &Testbed) {
    let all: [fn(Guard); 3] = [drop, std::mem::forget, unlock];
    for ends in all {
        let (ours, other) = (locker(bed), locker(bed));
        let limited = ours.lock(NAME).lease(SHORT_LEASE).hold_at_most(SHORT_LEASE);
        let guard = within("free", limited).await.expect("granted");
        let next = tokio::spawn(async move { other.lock(NAME).lease(LONG_LEASE).await });
        let clock = Clock::system();
        let last = use_until_lost(&guard, &clock).await;
        ends(guard);
        let next = within("the end of the delay", next).await.expect("no panic").expect("granted");
        let passed = clock.now().since(last);
        assert!(passed >= DELAY, "taken over after {passed:?}");
        next.unlock().await.expect("held");
    }
}

fn unlock(guard: Guard) {
    tokio::spawn(async move {
        let answer = guard.unlock().await;
        assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
    });
}

/// A lock that is unlocked, dropped while it is valid, or freed by force, is free at once.
pub async fn a_lock_that_ends_cleanly_is_free_at_once(bed: &Testbed) {
    let (ours, other) = (locker(bed), locker(bed));
    let clock = Clock::system();
    let begun = clock.now();
    let unlocked = ours.lock(NAME).lease(LONG_LEASE).await.expect("free");
    unlocked.unlock().await.expect("held");
    let dropped = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    drop(dropped);
    let taken = within("free", other.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    assert!(ours.mutex(NAME).force_unlock().await.expect("an answer"), "it was held");
    let next = within("free by force", ours.lock(NAME)).await.expect("granted");
    assert!(clock.now().since(begun) < LONG_LEASE, "no lease has ended");
    drop((taken, next));
}

/// The nodes keep the lock for longer than its holder counts on it.
pub async fn a_holder_counts_on_its_lease_alone(bed: &Testbed) {
    let (ours, other) = (locker(bed), bed.locker());
    let guard = within("free", ours.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    let believed = guard.valid_for();
    let kept = other.mutex(NAME).holder().await.expect("an answer").expect("held").remaining;
    assert!(believed <= SHORT_LEASE, "{believed:?}");
    assert!(kept.expect("an expiry") > believed, "{kept:?} is no more than {believed:?}");
    assert!(kept.expect("an expiry") > DELAY, "{kept:?}");
}
