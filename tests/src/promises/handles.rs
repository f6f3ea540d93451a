//! The handle of a lock, work under a request, names with a prefix, and the question whether locks
//! can be granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::{ConfigError, Error, NodeReport, Owner};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{MAX_WAIT, Testbed, eventually, within};

/// Handles and requests of one name are one lock, whichever of them takes it.
pub async fn a_mutex_is_the_lock_of_its_name(bed: &Testbed) {
    let (ours, other) = (bed.locker().mutex(NAME), bed.locker().mutex(NAME));
    let clone = ours.clone();
    assert_eq!(ours.name(), NAME);
    let guard = ours.lock().lease(LONG_LEASE).await.expect("free");
    for mutex in [&clone, &other] {
        assert!(mutex.try_lock().await.expect("an answer").is_none());
        let late = within("the timeout", mutex.lock().wait(Duration::from_millis(50))).await;
        assert!(late.expect_err("held").is_busy());
    }
    let waiter = tokio::spawn(async move { other.lock().wait(MAX_WAIT).await });
    bed.awaits_waiters(NAME).await;
    let token = guard.token();
    guard.unlock().await.expect("unlocked");
    let next = within("its turn", waiter).await.expect("no panic").expect("free");
    assert!(next.token() > token);
    drop(next);

    let nameless = bed.locker().mutex("");
    let refused = nameless.lock().await.expect_err("no name");
    assert!(matches!(refused, Error::Config(ConfigError::EmptyName)), "{refused:?}");
}

/// `run` keeps the options of its request, runs no work without the lock, and releases it.
pub async fn work_runs_under_a_request_with_its_options(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let ran = AtomicBool::new(false);
    let work = async |_| ran.store(true, Ordering::SeqCst);
    let out = ours
        .lock(NAME)
        .wait(MAX_WAIT)
        .lease(LONG_LEASE)
        .run(async |lock| {
            // By default it lasts half as long.
            assert!(lock.valid_for() > LONG_LEASE * 2 / 3, "the request's own lease");
            let wait = Duration::from_millis(50);
            let busy = other.lock(NAME).wait(wait).run(work).await.expect_err("held");
            assert!(busy.is_busy() && busy.is_retryable(), "{busy:?}");
            assert_eq!(other.try_lock(NAME).run(work).await.expect("an answer"), None);
            7
        })
        .await;
    assert_eq!(out.expect("done"), 7);
    assert!(!ran.load(Ordering::SeqCst), "work ran without the lock");
    let free = within("free again", other.try_lock(NAME).run(work)).await;
    assert_eq!(free.expect("an answer"), Some(()));
    assert!(ran.load(Ordering::SeqCst));

    let limit = Duration::from_millis(300);
    let endless = ours.lock(NAME).hold_at_most(limit).run(|_| std::future::pending::<()>());
    let lost = within("its limit", endless).await;
    assert!(matches!(lost, Err(Error::Lost(_))), "{lost:?}");
}

/// A prefix is a part of the name, in each call.
pub async fn a_prefix_is_a_part_of_every_name(bed: &Testbed) {
    let ours = bed.build(bed.builder().prefix("app:"));
    let (plain, owner) = (bed.locker(), Owner::new());
    let guard = ours.lock("x").lease(LONG_LEASE).owner(&owner).await.expect("free");
    assert_eq!(guard.name(), "app:x");
    assert_eq!(ours.mutex("x").name(), "app:x");
    let holder = plain.mutex("app:x").holder().await.expect("an answer").expect("held");
    assert!(holder.has(guard.nonce()), "{holder:?}");
    assert!(!plain.mutex("x").is_locked().await.expect("an answer"));
    assert!(ours.mutex("x").is_locked().await.expect("an answer"));
    assert!(
        ours.mutex("x").holder().await.expect("an answer").is_some_and(|it| it.has(guard.nonce()))
    );
    assert!(ours.mutex("x").is_held_by(&owner).await.expect("an answer"));
    assert!(ours.mutex("x").try_lock().await.expect("an answer").is_none());
    assert!(plain.try_lock("app:x").await.expect("an answer").is_none());
    let again = ours.lock("x").owner(&owner).await.expect("ours");
    assert_eq!(again.token(), guard.token());
    drop(again);
    assert!(ours.mutex("x").force_unlock().await.expect("an answer"));
    drop(guard);
    let next = within("free", plain.lock("app:x")).await.expect("free");
    assert!(ours.try_lock("x").run(async |_| ()).await.expect("an answer").is_none());
    drop(next);
    let refused = ours.lock("").await.expect_err("no name");
    assert!(matches!(refused, Error::Config(ConfigError::EmptyName)), "{refused:?}");
}

/// `ping` succeeds while a majority answers, and needs no lock.
pub async fn a_ping_tells_whether_a_majority_answers(bed: &Testbed) {
    let locker = bed.build(bed.builder().answer_timeout(Duration::from_millis(500)));
    eventually("a majority answers", async || locker.ping().await.ok()).await;
    let guard = bed.locker().lock(NAME).lease(LONG_LEASE).await.expect("free");
    eventually("locks change nothing", async || locker.ping().await.ok()).await;
    bed.pause_all();
    let silent = within("the answer timeout", locker.ping()).await.expect_err("nobody answers");
    let Error::Unreachable(none) = &silent else { panic!("{silent:?}") };
    assert_eq!(none.name, None, "it is about no lock");
    assert!(silent.is_retryable() && !silent.is_busy());
    assert!(none.nodes.iter().all(|NodeReport { problem, .. }| !problem.answered()), "{none:?}");
    bed.resume_all();
    eventually("they answer again", async || locker.ping().await.ok()).await;
    guard.unlock().await.expect("unlocked");
    locker.close().await;
    assert!(matches!(locker.ping().await, Err(Error::Closed)));
}

/// The token is cancelled when the lock is lost and when it is unlocked, by the watchdog's thread.
pub async fn a_cancellation_token_ends_with_the_hold(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(SHORT_LEASE * 2).await.expect("free");
    let (token, watched) = (guard.cancellation_token(), guard.view().cancellation_token());
    assert!(!token.is_cancelled());
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    within("the loss", token.cancelled()).await;
    assert!(watched.is_cancelled() && !guard.is_valid());
    assert!(guard.cancellation_token().is_cancelled(), "late tokens begin cancelled");
    drop(guard);

    let guard = within("free", ours.lock(NAME)).await.expect("free");
    let token = guard.cancellation_token();
    guard.unlock().await.expect("unlocked");
    assert!(token.is_cancelled(), "what goes on after an unlock is not guarded");

    let guard = within("free", ours.lock(NAME).hold_at_most(SHORT_LEASE)).await.expect("free");
    let token = guard.cancellation_token();
    // Nobody looks at the guard: only the watchdog can notice its end.
    eventually("its limit", async || token.is_cancelled().then_some(())).await;
    assert!(!guard.is_valid());
}

/// A view is a future of the loss.
pub async fn a_watch_resolves_with_the_loss(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = ours.lock(NAME).lease(SHORT_LEASE * 2).await.expect("free");
    let view = guard.view();
    let waiting = tokio::spawn(view.clone().into_future());
    assert!(view.is_valid());
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    let lost = within("the loss", waiting).await.expect("no panic");
    assert_eq!(lost.name.as_str(), NAME);
    assert!(!view.is_valid() && !guard.is_valid());
    assert_eq!(view.await, lost, "at once, once it is lost");
}

/// Shared handles work from many tasks at once.
pub async fn one_mutex_serves_many_tasks(bed: &Testbed) {
    let (mutex, inside) = (bed.locker().mutex(NAME), Arc::new(AtomicBool::new(false)));
    let tasks = (0..8).map(|_| {
        let (mutex, inside) = (mutex.clone(), inside.clone());
        tokio::spawn(mutex.lock().run(move |_| async move {
            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
            tokio::task::yield_now().await;
            inside.store(false, Ordering::SeqCst);
        }))
    });
    for task in tasks.collect::<Vec<_>>() {
        within("its turn", task).await.expect("no panic").expect("its turn");
    }
}
