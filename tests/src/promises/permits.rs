//! Permits: any of k slots, each a lock of its own (docs/PROTOCOL.md, Permits).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use quorumlock::{ConfigError, Error, Locker, LossReason, PermitGuard};

use super::{LONG_LEASE, RENEWED_LEASE, SHORT_LEASE, is_taken_away};
use crate::{CountPolls, Drops, MAX_WAIT, Testbed, within};

const NAME: &str = "exports";
const WAITERS: &str = "quorumlock:waiters:raw:quorumlock:permit:{exports}:";

fn slot(number: u16) -> String {
    format!("quorumlock:permit:{{{NAME}}}:{number}")
}

/// At most so many permits are held, of all processes together, and each has a slot of its own (PER1).
pub async fn each_permit_has_a_slot_of_its_own(bed: &Testbed) {
    let lockers = [bed.locker(), bed.locker()];
    let mut held: Vec<PermitGuard> = Vec::new();
    for number in 0..5 {
        let permit = lockers[number % 2].semaphore(NAME, 5).acquire().lease(LONG_LEASE);
        held.push(within("a free slot", permit).await.expect("free"));
        assert_eq!(held[number].name(), NAME);
    }
    let slots: BTreeSet<_> = held.iter().map(PermitGuard::slot).collect();
    assert_eq!(slots, (0..5).collect(), "each once");
    for locker in &lockers {
        assert!(
            locker.semaphore(NAME, 5).try_acquire().await.expect("an answer").is_none(),
            "a sixth permit"
        );
    }
    let holders = lockers[0].semaphore(NAME, 5).holders().await.expect("an answer");
    for permit in &held {
        let holder = holders[usize::from(permit.slot())].as_ref().expect("held");
        assert!(holder.has(permit.nonce()), "slot {}", permit.slot());
    }
    let mut kept = Vec::new();
    for permit in held {
        let slot = permit.slot();
        permit.unlock().await.expect("unlocked");
        let next =
            lockers[1].semaphore(NAME, 5).try_acquire().lease(LONG_LEASE).await.expect("an answer");
        let next = next.expect("one slot is free");
        assert_eq!(next.slot(), slot, "the free one");
        kept.push(next);
    }
}

/// Tasks of several processes enter and leave: never are more in than there are permits, never are two in
/// one slot, and each token of a slot is above the one before it.
pub async fn no_more_tasks_are_in_than_there_are_permits(bed: &Testbed) {
    const PERMITS: usize = 3;
    const ROUNDS: usize = 8;
    let inside: Arc<(AtomicUsize, [AtomicUsize; PERMITS], [AtomicU64; PERMITS])> = Arc::default();
    let lockers: Vec<_> = (0..3).map(|_| bed.locker()).collect();
    let work = (0..12).map(|task| {
        let (locker, inside) = (lockers[task % 3].clone(), inside.clone());
        tokio::spawn(async move {
            let (all, slots, tokens) = &*inside;
            for _ in 0..ROUNDS {
                let permit = locker.semaphore(NAME, PERMITS as u32).acquire().await.expect("had");
                let slot = usize::from(permit.slot());
                assert!(all.fetch_add(1, Ordering::SeqCst) < PERMITS, "too many are in");
                assert_eq!(slots[slot].fetch_add(1, Ordering::SeqCst), 0, "two in slot {slot}");
                let token = permit.token().get();
                assert!(tokens[slot].swap(token, Ordering::SeqCst) < token, "slot {slot}");
                tokio::time::sleep(Duration::from_millis(1)).await;
                slots[slot].fetch_sub(1, Ordering::SeqCst);
                all.fetch_sub(1, Ordering::SeqCst);
                permit.unlock().await.expect("still held");
            }
        })
    });
    let work: Vec<_> = work.collect();
    for task in work {
        within("all rounds", task).await.expect("no panic");
    }
    for number in 0..PERMITS as u16 {
        bed.awaits_no_key(&slot(number)).await;
    }
}

/// The release of any slot wakes a waiter; releases of several slots wake several (PER2). The leases are
/// longer than the test waits.
pub async fn each_release_wakes_a_waiter(bed: &Testbed) {
    let holder = bed.locker();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(
            within("a slot", holder.semaphore(NAME, 3).acquire().lease(LONG_LEASE))
                .await
                .expect("free"),
        );
    }
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let locker = bed.locker();
            tokio::spawn(async move { locker.semaphore(NAME, 3).acquire().lease(LONG_LEASE).await })
        })
        .collect();
    bed.awaits_number_of_waiters(WAITERS, 3).await;
    for permit in held {
        permit.unlock().await.expect("unlocked");
    }
    let mut slots = BTreeSet::new();
    let mut permits = Vec::new();
    for waiter in waiting {
        let permit = within("a permit", waiter).await.expect("no panic").expect("granted");
        slots.insert(permit.slot());
        permits.push(permit);
    }
    assert_eq!(slots.len(), 3);
    drop(permits);
    bed.awaits_no_waiter(WAITERS).await;
}

/// Waiters of one process get the slots that its own tasks, and those of another process, give back.
pub async fn waiters_of_one_process_share_its_place_in_the_queue(bed: &Testbed) {
    let (holder, ours) = (bed.locker(), bed.locker());
    let mut held = Vec::new();
    for locker in [&holder, &holder, &ours] {
        held.push(
            within("a slot", locker.semaphore(NAME, 3).acquire().lease(LONG_LEASE))
                .await
                .expect("free"),
        );
    }
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let locker = ours.clone();
            tokio::spawn(async move {
                let permit = locker.semaphore(NAME, 3).acquire().lease(LONG_LEASE).await?;
                permit.unlock().await
            })
        })
        .collect();
    bed.awaits_waiters(WAITERS).await;
    for permit in held {
        permit.unlock().await.expect("unlocked");
    }
    for waiter in waiting {
        within("a permit", waiter).await.expect("no panic").expect("had and given back");
    }
    bed.awaits_no_waiter(WAITERS).await;
}

/// A waiter that gives up passes on what it was told: the next waiter gets the slot.
pub async fn a_waiter_that_gives_up_passes_the_slot_on(bed: &Testbed) {
    let (holder, first, second) = (bed.locker(), bed.locker(), bed.locker());
    let take = |locker: &Locker| {
        let locker = locker.clone();
        tokio::spawn(async move { locker.semaphore(NAME, 1).acquire().lease(LONG_LEASE).await })
    };
    for _ in 0..8 {
        let held = within("a slot", holder.semaphore(NAME, 1).acquire().lease(LONG_LEASE))
            .await
            .expect("free");
        let gives_up = take(&first);
        bed.awaits_number_of_waiters(WAITERS, 1).await;
        let waits = take(&second);
        bed.awaits_number_of_waiters(WAITERS, 2).await;
        let released = held.unlock();
        gives_up.abort();
        released.await.expect("unlocked");
        let permit = within("the slot", waits).await.expect("no panic").expect("granted");
        permit.unlock().await.expect("unlocked");
    }
}

/// The watchdog renews permits, also several of one name.
pub async fn permits_are_renewed(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let take = || ours.semaphore(NAME, 2).acquire().lease(RENEWED_LEASE);
    let permits = [
        within("a slot", take()).await.expect("free"),
        within("a slot", take()).await.expect("free"),
    ];
    tokio::time::sleep(RENEWED_LEASE * 3 / 2).await;
    assert!(
        other.semaphore(NAME, 2).try_acquire().await.expect("an answer").is_none(),
        "a third permit"
    );
    for permit in permits {
        permit.renew().await.expect("renewed");
        permit.unlock().await.expect("unlocked");
    }
}

/// A permit is lost with its slot, and no other permit of the name is.
pub async fn a_permit_is_lost_with_its_slot_alone(bed: &Testbed) {
    let ours = bed.locker();
    let take = || ours.semaphore(NAME, 2).acquire().lease(LONG_LEASE);
    let lost = within("a slot", take()).await.expect("free");
    let kept = within("a slot", take()).await.expect("free");
    assert!(lost.token() != kept.token());
    let freed =
        bed.locker().semaphore(NAME, 2).force_release(lost.slot()).await.expect("an answer");
    assert!(freed, "it was held");
    assert!(lost.renew().await.is_err() | kept.renew().await.is_ok());
    assert!(is_taken_away(within("the loss", lost.lost()).await.why));
    kept.check().expect("still held");
    assert!(lost.unlock().await.is_err(), "it was lost");
    kept.unlock().await.expect("unlocked");
}

/// Another number of permits, or a bad name, is a typed error, and nothing is taken.
pub async fn wrong_permits_are_refused_and_nothing_is_taken(bed: &Testbed) {
    let locker = bed.locker();
    for permits in [0, 257, u32::MAX] {
        let Err(Error::Config(error)) = locker.semaphore(NAME, permits).try_acquire().await else {
            panic!("{permits} permits")
        };
        assert_eq!(error, ConfigError::BadPermits { permits, max: 256 });
        let handle = locker.semaphore(NAME, permits).acquire().await;
        assert!(matches!(handle, Err(Error::Config(ConfigError::BadPermits { .. }))));
        let asked = locker.semaphore(NAME, permits).holders().await;
        assert!(matches!(asked, Err(Error::Config(ConfigError::BadPermits { .. }))));
    }
    let freed = locker.semaphore(NAME, 256).force_release(256).await;
    assert!(matches!(freed, Err(Error::Config(ConfigError::BadSlot { slot: 256, max: 255 }))));
    let unnamed = locker.semaphore("", 2).acquire().await;
    assert!(matches!(unnamed, Err(Error::Config(ConfigError::EmptyName))));
    let holders = locker.semaphore(NAME, 256).holders().await.expect("an answer");
    assert_eq!(holders, vec![None; 256]);
    let most = within("a slot", locker.semaphore(NAME, 256).acquire()).await.expect("free");
    most.unlock().await.expect("unlocked");
}

/// A wait ends at its bound, a hold at its limit; a handle and `run` do the same.
pub async fn a_permit_takes_the_options_of_a_lock(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let exports = ours.semaphore(NAME, 1);
    assert_eq!((exports.name(), exports.permits()), (NAME, 1));
    let held = within("a slot", exports.acquire()).await.expect("free");
    assert!(exports.try_acquire().await.expect("an answer").is_none());
    for locker in [&ours, &other] {
        let busy =
            locker.semaphore(NAME, 1).acquire().wait(SHORT_LEASE / 4).await.expect_err("held");
        assert!(busy.is_busy() && busy.to_string().contains("exports (1 permit)"), "{busy}");
    }
    held.unlock().await.expect("unlocked");
    let limited = exports.acquire().wait(MAX_WAIT).hold_at_most(SHORT_LEASE);
    let limited = within("a slot", limited).await.expect("free");
    assert_eq!(within("its end", limited.lost()).await.why, LossReason::HoldLimit);
    let names = other.semaphore(NAME, 1).acquire().run(async |view| view.name().to_owned());
    assert_eq!(within("the work", names).await.expect("worked"), NAME);
}

/// More permits let more callers in at once; fewer do when the upper slots are given back. A lock of the
/// same name is another thing.
pub async fn the_number_of_permits_may_change(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let one =
        within("a slot", ours.semaphore(NAME, 1).acquire().lease(LONG_LEASE)).await.expect("free");
    assert!(other.semaphore(NAME, 1).try_acquire().await.expect("an answer").is_none());
    let two = other
        .semaphore(NAME, 2)
        .try_acquire()
        .lease(LONG_LEASE)
        .await
        .expect("an answer")
        .expect("free");
    assert_eq!((one.slot(), two.slot()), (0, 1));
    let lock = within("a free name", ours.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    one.unlock().await.expect("unlocked");
    let again =
        ours.semaphore(NAME, 1).try_acquire().await.expect("an answer").expect("slot 0 is free");
    again.unlock().await.expect("unlocked");
    two.unlock().await.expect("unlocked");
    lock.unlock().await.expect("unlocked");
}

/// `permit()` may be dropped at any await, also while it waits.
pub async fn a_permit_dropped_anywhere_leaves_nothing_behind(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for busy in [false, true] {
        for polls in 0..8 {
            let held = match busy {
                true => {
                    let held = other.semaphore(NAME, 1).acquire().lease(LONG_LEASE);
                    Some(within("a slot", held).await.expect("free"))
                }
                false => None,
            };
            let permit = CountPolls::new(
                ours.semaphore(NAME, 1).acquire().lease(LONG_LEASE),
                polls,
                Drops::OnWake,
            );
            drop(tokio::time::timeout(SHORT_LEASE / 4, permit).await);
            if let Some(held) = held {
                held.unlock().await.expect("unlocked");
            }
            bed.awaits_no_key(&slot(0)).await;
        }
    }
    bed.awaits_no_waiter(WAITERS).await;
    let permit = within("a slot", ours.semaphore(NAME, 1).acquire()).await.expect("free");
    permit.unlock().await.expect("unlocked");
}

/// The blocking API has them too.
pub fn blocking_permits_have_slots_of_their_own(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let first = ours.semaphore(NAME, 2).acquire().lease(LONG_LEASE).acquire().expect("free");
    let exports = other.semaphore(NAME, 2);
    let second = exports.acquire().wait(MAX_WAIT).acquire().expect("free");
    assert_eq!(first.slot() + second.slot(), 1, "0 and 1");
    assert!(exports.try_acquire().acquire().expect("an answer").is_none());
    assert!(ours.semaphore(NAME, 2).try_acquire().acquire().expect("an answer").is_none());
    let holders = ours.semaphore(NAME, 2).holders().expect("an answer");
    assert!(holders.iter().all(Option::is_some), "{holders:?}");
    assert!(ours.semaphore(NAME, 2).force_release(second.slot()).expect("an answer"));
    first.unlock().expect("unlocked");
    assert!(second.unlock().is_err(), "it was lost");
    assert_eq!((exports.name(), exports.permits()), (NAME, 2));
    let slot = exports.acquire().run(|view| view.slot()).expect("granted");
    assert!(matches!(slot, Some(0 | 1)), "{slot:?}");
    let slot = ours.lock("invoice/8").run(|view| view.slot()).expect("granted");
    assert_eq!(slot, None, "a lock has none");
}
