//! At most one holder at any time (SAFETY.md G1, G2).

use std::time::Duration;

use super::{LONG_LEASE, NAME};
use crate::worker::Count;
use crate::{Testbed, within};

/// Increments by each task.
const ROUNDS: usize = 16;

/// 32 tasks in 4 processes. Increments get lost if two tasks are ever inside the lock at once.
pub async fn a_number_counted_by_four_processes_is_exact(bed: &Testbed) {
    let count = Count { processes: 4, tasks: 8, rounds: ROUNDS };
    let counted = count.run(bed.worker(), &bed.target(NAME, Duration::from_secs(10))).await;
    assert_eq!(counted.number, 4 * 8 * ROUNDS);
    assert_eq!(counted.fences.len(), counted.number);
    let rising = counted.fences.is_sorted_by(|earlier, later| earlier < later);
    assert!(rising, "tokens in the order of their holders: {:?}", counted.fences);
}

/// Until the lock is released, other callers are refused, in the same process and in another one.
pub async fn two_locks_exclude_each_other(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = within("a free lock", ours.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    for locker in [&ours, &other] {
        let refused = within("an answer", locker.try_lock(NAME)).await.expect("an answer");
        assert!(refused.is_none(), "two holders: {guard:?} and {refused:?}");
    }
    let elsewhere = within("another lock", other.try_lock("invoice/8")).await.expect("an answer");
    assert!(elsewhere.is_some(), "another name is another lock");
    guard.unlock().await.expect("unlocked");
    // A majority has confirmed the release. A node that has not yet may be one that this locker
    // needs, if it does not reach all nodes yet: it waits.
    drop(within("a free lock", other.lock(NAME)).await.expect("free"));
}

/// `run` holds the lock exactly as long as the work runs.
pub async fn run_locks_works_and_releases(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let refused = within(
        "the work",
        ours.run(NAME, async |view| {
            assert!(view.check().is_ok());
            other.try_lock(NAME).await.expect("an answer").is_none()
        }),
    );
    assert!(refused.await.expect("worked"), "somebody else got in during the work");
    let after = within("a free lock", other.lock(NAME)).await.expect("free");
    assert!(after.check().is_ok());
}
