//! One lock of several names: all or none (docs/PROTOCOL.md, Several names).
//!
//! The names share a hash tag, as a Redis Cluster requires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use quorumlock::telemetry::Mode;
use quorumlock::{ConfigError, Error, Locker, LossReason, Owner};

use super::{LONG_LEASE, RENEWED_LEASE, SHORT_LEASE, is_taken_away};
use crate::{CountPolls, Drops, MAX_WAIT, Stopwatch, Testbed, Topology, within};

const A: &str = "{acct}/1";
const B: &str = "{acct}/2";
const C: &str = "{acct}/3";

/// A set excludes a lock of each of its names and every set that shares a name, in both directions,
/// in this process and in another one. What is refused takes nothing (SET1).
pub async fn a_set_excludes_each_of_its_names(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let set = within("free names", ours.lock([B, A]).lease(LONG_LEASE)).await.expect("free");
    assert_eq!(set.names().collect::<Vec<_>>(), [A, B], "in order");
    for locker in [&ours, &other] {
        for name in [A, B] {
            assert!(locker.try_lock(name).await.expect("an answer").is_none(), "{name} twice");
        }
        assert!(locker.try_lock([C, B]).await.expect("an answer").is_none(), "{B} twice");
    }
    bed.awaits_no_key(C).await;
    set.unlock().await.expect("unlocked");
    let one = within("a free name", other.lock(B).lease(LONG_LEASE)).await.expect("free");
    for locker in [&ours, &other] {
        assert!(locker.try_lock([A, B, C]).await.expect("an answer").is_none(), "{B} twice");
    }
    for name in [A, C] {
        bed.awaits_no_key(name).await;
    }
    one.unlock().await.expect("unlocked");
    drop(within("free names", ours.lock([A, B, C])).await.expect("free"));
    for name in [A, B, C] {
        bed.awaits_no_key(name).await;
    }
}

/// A handle of several names asks about all of them, and frees all of them.
pub async fn a_handle_of_a_set_asks_about_all_names_and_frees_them(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let (set, owner) = (ours.mutex([B, A]), Owner::new());
    assert_eq!((set.name(), set.names().collect::<Vec<_>>()), (B, vec![B, A]), "as given");
    assert_eq!(within("an answer", set.holder()).await.expect("an answer"), None);
    assert!(!within("an answer", set.force_unlock()).await.expect("an answer"), "it was free");

    let one = within("a free name", other.lock(B).lease(LONG_LEASE)).await.expect("free");
    let holder = within("an answer", set.holder()).await.expect("an answer").expect("held");
    assert!(holder.has(one.nonce()), "{holder:?}");
    assert!(within("an answer", set.is_locked()).await.expect("an answer"));
    assert!(!within("an answer", set.is_held_by(&owner)).await.expect("an answer"));
    one.unlock().await.expect("held");

    // A renewal tells the holder, if no message does.
    let all = set.lock().lease(MAX_WAIT / 2).owner(&owner);
    let all = within("free names", all).await.expect("free");
    assert!(within("an answer", set.is_held_by(&owner)).await.expect("an answer"));
    let one = ours.mutex(A);
    assert!(!within("an answer", one.is_held_by(&owner)).await.expect("an answer"), "another lock");
    // The futures need no handle.
    let freed = tokio::spawn(other.mutex([A, B]).force_unlock());
    assert!(within("an answer", freed).await.expect("no panic").expect("an answer"), "it was held");
    let lost = within("the loss", all.lost()).await;
    assert!(is_taken_away(lost.why), "{lost:?}");
    assert!(!within("an answer", set.is_locked()).await.expect("an answer"));
}

/// The set has one token (SET2). It is above the earlier tokens of each of its names, and below the later
/// ones.
pub async fn a_set_has_one_token_above_those_of_its_names(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let mut last = 0;
    for round in 0..8 {
        let name = [A, B, C][round % 3];
        let one = within("a free name", other.lock(name)).await.expect("free");
        assert!(one.token().get() > last, "{name}: {} is not above {last}", one.token());
        last = one.token().get();
        one.unlock().await.expect("unlocked");
        let set = within("free names", ours.lock([A, B, C])).await.expect("free");
        assert!(set.token().get() > last, "{} is not above {last}", set.token());
        last = set.token().get();
        set.unlock().await.expect("unlocked");
    }
}

/// The watchdog renews all names.
pub async fn a_set_is_renewed(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let set = within("free names", ours.lock([A, B]).lease(RENEWED_LEASE)).await.expect("free");
    tokio::time::sleep(RENEWED_LEASE * 3 / 2).await;
    set.check().expect("still held");
    for name in [A, B] {
        assert!(other.try_lock(name).await.expect("an answer").is_none(), "{name} twice");
    }
    set.renew().await.expect("renewed");
    set.unlock().await.expect("unlocked");
}

/// A set is lost as soon as one of its names is (SET3), and its other names become free.
pub async fn a_set_is_lost_with_one_of_its_names(bed: &Testbed) {
    let ours = bed.locker();
    let set = within("free names", ours.lock([A, B]).lease(LONG_LEASE)).await.expect("free");
    assert!(bed.locker().mutex(B).force_unlock().await.expect("an answer"));
    let _ = set.renew().await;
    let lost = within("the loss", set.lost()).await;
    assert!(is_taken_away(lost.why), "{lost}");
    assert!(set.unlock().await.is_err(), "it was lost");
    for name in [A, B] {
        bed.awaits_no_key(name).await;
    }
}

/// A release of the name that was busy wakes the waiter, whichever of the names it is. Meanwhile the
/// waiter holds none of the others (SET4).
pub async fn a_waiter_for_a_set_is_woken_and_holds_nothing(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for busy in [A, B, C] {
        let one = within("a free name", other.lock(busy).lease(LONG_LEASE)).await.expect("free");
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.lock([A, B, C]).lease(LONG_LEASE).await }
        });
        bed.awaits_waiters(busy).await;
        for free in [A, B, C].into_iter().filter(|name| *name != busy) {
            let taken = within("a free name", other.lock(free)).await.expect("free");
            taken.unlock().await.expect("unlocked");
        }
        // The lease is longer than the test waits.
        one.unlock().await.expect("unlocked");
        let set = within("the set", waiting).await.expect("no panic").expect("granted");
        set.unlock().await.expect("unlocked");
    }
    for name in [A, B, C] {
        bed.awaits_no_waiter(name).await;
    }
}

/// A waiter for a set is notified of a free name while another of its names is busy. The waiter behind it
/// gets the free name (SET4).
pub async fn a_set_that_cannot_use_a_free_name_lets_others_have_it(bed: &Testbed) {
    let (holder, sets, other) = (bed.locker(), bed.locker(), bed.locker());
    let first = within("a free name", holder.lock(A).lease(LONG_LEASE)).await.expect("free");
    let second = within("a free name", holder.lock(B).lease(LONG_LEASE)).await.expect("free");
    let set = tokio::spawn(async move { sets.lock([A, B]).lease(LONG_LEASE).await });
    bed.awaits_waiters(A).await;
    let single = tokio::spawn(async move { other.lock(A).lease(LONG_LEASE).await });
    bed.awaits_number_of_waiters(A, 2).await;
    first.unlock().await.expect("unlocked");
    let single = within("the free name", single).await.expect("no panic").expect("granted");
    second.unlock().await.expect("unlocked");
    single.unlock().await.expect("unlocked");
    let set = within("the set", set).await.expect("no panic").expect("granted");
    set.unlock().await.expect("unlocked");
}

/// Sets in a ring, and locks of single names beside them: all go on, and none is in at the same time as
/// another that shares a name.
pub async fn sets_in_a_ring_all_go_on(bed: &Testbed) {
    const ROUNDS: usize = 6;
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let wanted: [&[usize]; 6] = [&[0, 1], &[1, 2], &[2, 0], &[0], &[1], &[2]];
    let names = [A, B, C];
    let work = wanted.into_iter().map(|wanted| {
        let (locker, inside) = (bed.locker(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let set = locker
                    .lock(wanted.iter().map(|at| names[*at]).collect::<Vec<_>>())
                    .await
                    .expect("had");
                for at in wanted {
                    assert_eq!(inside[*at].fetch_add(1, Ordering::SeqCst), 0, "two in {at}");
                }
                tokio::task::yield_now().await;
                for at in wanted {
                    inside[*at].fetch_sub(1, Ordering::SeqCst);
                }
                set.unlock().await.expect("still held");
            }
        })
    });
    let work: Vec<_> = work.collect();
    for task in work {
        within("all rounds", task).await.expect("no panic");
    }
}

/// A name that is given twice counts once; no name, 33 names or a bad one is a typed error, and
/// nothing is taken.
pub async fn wrong_sets_are_refused_and_nothing_is_taken(bed: &Testbed) {
    let locker = bed.locker();
    let twice = within("free names", locker.lock([A, A])).await.expect("free");
    assert_eq!(twice.names().collect::<Vec<_>>(), [A]);
    twice.unlock().await.expect("unlocked");
    let config = |error: Error| match error {
        Error::Config(error) => error,
        other => panic!("{other:?}"),
    };
    let none = locker.lock(Vec::<&str>::new()).await.expect_err("refused");
    assert_eq!(config(none), ConfigError::NoNames);
    let many: Vec<_> = (0..33).map(|number| format!("{{acct}}/{number}")).collect();
    let refused = locker.try_lock(&many).await.expect_err("refused");
    assert_eq!(config(refused), ConfigError::TooManyNames { names: 33, max: 32 });
    assert_eq!(config(locker.lock([A, ""]).await.expect_err("refused")), ConfigError::EmptyName);
    bed.awaits_no_key(A).await;
    let most = within("free names", locker.lock(&many[..32])).await.expect("free");
    assert_eq!(most.names().count(), 32);
    most.unlock().await.expect("unlocked");
}

/// An owner enters its set again; a wait ends at its bound.
pub async fn a_set_takes_the_options_of_a_lock(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let owner = Owner::new();
    let outer = within("free names", ours.lock([A, B]).owner(&owner)).await.expect("free");
    let inner = within("its set", ours.lock([B, A]).owner(&owner)).await.expect("its own");
    assert_eq!(outer.token(), inner.token());
    inner.unlock().await.expect("unlocked");
    let busy = other.lock([A, B]).wait(SHORT_LEASE / 4).await.expect_err("held");
    assert!(busy.to_string().contains(&format!("{A}, {B}")), "{busy}");
    outer.unlock().await.expect("unlocked");
    let limited = ours.lock([A, B]).hold_at_most(SHORT_LEASE);
    let limited = within("free names", limited).await.expect("free");
    assert_eq!(within("its end", limited.lost()).await.why, LossReason::HoldLimit);
    let watched = ours.lock([A, B]).run(async |view| view.names().count());
    assert_eq!(within("the work", watched).await.expect("worked"), 2);
}

/// `lock()` of several names may be dropped at any await, also while it waits.
pub async fn a_set_dropped_anywhere_leaves_nothing_behind(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for held in [None, Some(B)] {
        for polls in 0..8 {
            let one = match held {
                Some(name) => Some(within("a free name", other.lock(name)).await.expect("free")),
                None => None,
            };
            let lock = CountPolls::new(ours.lock([A, B]).lease(LONG_LEASE), polls, Drops::OnWake);
            let waited = tokio::time::timeout(SHORT_LEASE / 4, lock).await;
            drop(waited);
            if let Some(one) = one {
                one.unlock().await.expect("unlocked");
            }
            for name in [A, B] {
                bed.awaits_no_key(name).await;
            }
        }
    }
    for name in [A, B] {
        bed.awaits_no_waiter(name).await;
    }
    take_and_give_back(&other).await;
}

async fn take_and_give_back(locker: &Locker) {
    let set = within("free names", locker.lock([A, B])).await.expect("free");
    set.unlock().await.expect("unlocked");
}

/// The blocking API has it too.
pub fn a_blocking_set_excludes_each_of_its_names(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let set = ours.lock([A, B]).lease(LONG_LEASE).acquire().expect("free");
    assert_eq!(set.names().count(), 2);
    assert!(other.try_lock(B).acquire().expect("an answer").is_none());
    assert!(other.try_lock([B, C]).acquire().expect("an answer").is_none());
    set.unlock().expect("unlocked");
    let set = other.lock([B, C]).wait(MAX_WAIT).acquire().expect("free");
    set.unlock().expect("unlocked");
}

/// Beside two lockers for each name, which hold it for a millisecond again and again, sets of two, five and
/// ten names come. On one server no set waits for longer than twenty single locks do (SET5).
pub async fn sets_come_beside_streams_of_single_locks(bed: &Testbed) {
    const ROUNDS: usize = 8;
    if bed.topology() == Topology::QuorumOf5TwoDown {
        // Each of the 34 lockers would wait for the hung node first.
        return;
    }
    for count in [2, 5, 10] {
        let names: Vec<_> = (0..count).map(|number| format!("{{stream}}/{number}")).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let streams = (0..2 * count).map(|number| {
            let (locker, name, stop) = (bed.locker(), names[number % count].clone(), stop.clone());
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let watch = Stopwatch::start();
                    let guard = locker.lock(&name).await.expect("its turn");
                    waits.push(watch.elapsed());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.unlock().await.expect("still held");
                }
                waits
            })
        });
        let streams: Vec<_> = streams.collect();
        let locker = bed.locker();
        let mut longest = Duration::ZERO;
        for _ in 0..ROUNDS {
            let watch = Stopwatch::start();
            let set = within(&format!("a set of {count}"), locker.lock(&names)).await;
            longest = longest.max(watch.elapsed());
            set.expect("all names").unlock().await.expect("still held");
        }
        stop.store(true, Ordering::SeqCst);
        let mut singles = Vec::new();
        for stream in streams {
            singles.extend(within("the end of a stream", stream).await.expect("no panic"));
        }
        singles.sort_unstable();
        // 400 ms are granted whatever the median is: a busy machine may stop the set's task for a while.
        let median = singles[singles.len() / 2].max(Duration::from_millis(20));
        let one_node = matches!(bed.mode(), Mode::Single | Mode::Replicated | Mode::Cluster);
        assert!(!one_node || longest <= 20 * median, "sets of {count}: {longest:?}, {median:?}");
    }
}
