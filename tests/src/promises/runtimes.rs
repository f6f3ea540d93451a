//! Lockers can outlive the runtimes in which they are used: in a `static`, between tests.

use super::{LONG_LEASE, NAME, RENEWED_LEASE};
use crate::testbed::in_a_runtime;
use crate::{Testbed, within};

/// A locker is used in one runtime, which ends, and then in another.
pub fn a_locker_outlives_its_runtime(bed: &Testbed) {
    let locker = bed.locker();
    let mut last = None;
    for _ in 0..3 {
        in_a_runtime(async {
            let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
            assert!(last < Some(guard.token()));
            last = Some(guard.token());
            guard.unlock().await.expect("unlocked");
        });
    }
}

/// The runtime ends while a lock is held: the watchdog renews it, and another runtime unlocks it.
pub fn a_guard_outlives_its_runtime(bed: &Testbed) {
    let lease = RENEWED_LEASE;
    let (locker, other) = (bed.locker(), bed.locker());
    let guard = in_a_runtime(async { locker.lock(NAME).lease(lease).await.expect("free") });
    std::thread::sleep(lease * 3 / 2);
    guard.check().expect("kept");
    in_a_runtime(async {
        assert!(other.try_lock(NAME).await.expect("an answer").is_none());
        guard.unlock().await.expect("unlocked");
        // It waits for the node that has not confirmed the release yet, if there is one.
        drop(within("a free lock", other.lock(NAME)).await.expect("free"));
    });
}

/// A program that ends right after an unlock leaves its key on no node, not only on no majority.
pub fn an_unlock_before_the_end_of_the_runtime_reaches_every_node(bed: &Testbed) {
    for _ in 0..20 {
        in_a_runtime(async {
            let guard = bed.locker().lock(NAME).lease(LONG_LEASE).await.expect("free");
            guard.unlock().await.expect("unlocked");
        });
        in_a_runtime(bed.awaits_no_key(NAME));
    }
}

/// Threads share a locker, and each makes one runtime after the other, as `#[tokio::test]` does. The
/// runtime that drives the connections ends while the others wait for answers.
pub fn no_call_fails_because_the_runtime_of_another_caller_ends(bed: &Testbed) {
    const THREADS: usize = 6;
    const RUNTIMES: usize = 6;
    const PAIRS: usize = 16;

    let locker = &bed.locker();
    let work = async move |thread: usize, round: usize| {
        for pair in 0..PAIRS {
            let own = format!("{NAME}/{thread}");
            let name = if pair % 4 == 0 { NAME } else { &own };
            let what = format!("thread {thread}, runtime {round}, pair {pair}");
            let guard = match pair % 4 {
                3 => locker
                    .try_lock(name)
                    .lease(LONG_LEASE)
                    .await
                    .map(|granted| granted.expect("free")),
                _ => within(&what, locker.lock(name).lease(LONG_LEASE)).await,
            };
            let guard = guard.unwrap_or_else(|error| panic!("{what}: {error}"));
            let holder =
                locker.mutex(name).holder().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(holder.is_some_and(|holder| holder.has(guard.nonce())), "{what}");
            guard.unlock().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..RUNTIMES).for_each(|round| in_a_runtime(work(thread, round))));
        }
    });
}
