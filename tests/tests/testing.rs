//! `quorumlock::testing`: a server in the process keeps the promises of one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use quorumlock::testing::MemoryServer;
use quorumlock::{
    Builder, ConfigError, Error, FencingToken, Leadership, Locker, LossReason, Owner, Replicas,
    Servers, blocking,
};
use quorumlock_tests::{Stopwatch, within};

const NAME: &str = "invoice/7";

/// Renewed each 100 ms.
const SHORT_LEASE: Duration = Duration::from_millis(300);

fn lockers<const COUNT: usize>() -> (MemoryServer, [Locker; COUNT]) {
    let server = MemoryServer::new();
    let lockers = [(); COUNT].map(|()| Locker::new(Servers::memory(&server)).expect("a thread"));
    (server, lockers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_task_of_many_lockers_is_in_at_a_time_and_tokens_rise() {
    let (_server, lockers) = lockers::<4>();
    let inside = Arc::new(AtomicU32::new(0));
    let tasks = (0..32).map(|task| {
        let (locker, inside) = (lockers[task % 4].clone(), inside.clone());
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..25 {
                let guard = locker.lock(NAME).await.expect("granted");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                tokens.push(guard.token());
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                guard.unlock().await.expect("held");
            }
            tokens
        })
    });
    let done = within("all holds", join_all(tasks)).await;
    let mut tokens: Vec<FencingToken> =
        done.into_iter().flat_map(|task| task.expect("no panic")).collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!((tokens.len(), count), (800, 800), "each hold has a token of its own");
}

#[tokio::test]
async fn a_waiter_of_another_locker_finds_each_kind_of_release() {
    let (_server, [ours, theirs]) = lockers();
    for way in 0..3 {
        let guard = within("free", ours.lock(NAME)).await.expect("granted");
        assert!(theirs.try_lock(NAME).await.expect("an answer").is_none());
        let waiter = tokio::spawn(theirs.lock(NAME).into_future());
        run_others().await;
        match way {
            0 => guard.unlock().await.expect("held"),
            1 => drop(guard),
            _ => assert!(theirs.mutex(NAME).force_unlock().await.expect("an answer")),
        }
        let next = within("the release", waiter).await.expect("no panic").expect("granted");
        next.unlock().await.expect("held");
    }
    assert!(!ours.mutex(NAME).is_locked().await.expect("an answer"));
}

/// Runs the other tasks of this thread until they wait: the server answers at once.
async fn run_others() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_paused_time_an_outage_takes_no_real_time() {
    let real = Stopwatch::start();
    let server = MemoryServer::in_tokio_time();
    let [ours, theirs] =
        [(); 2].map(|()| Locker::new(Servers::memory(&server)).expect("a runtime"));
    let guard = ours.lock(NAME).await.expect("granted");
    server.stop();
    assert!(guard.is_valid());
    assert_eq!(guard.lost().await.why, LossReason::WindowShut);
    server.start();

    let guard = ours.lock(NAME).await.expect("granted");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(guard.is_valid(), "it is renewed");
    let waiter = tokio::spawn(theirs.lock(NAME).into_future());
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.forget_locks();
    assert_eq!(guard.lost().await.why, LossReason::Gone);
    let next = waiter.await.expect("no panic").expect("granted");
    next.unlock().await.expect("held");

    let limited = ours.lock(NAME).hold_at_most(Duration::from_secs(600)).await.expect("granted");
    assert_eq!(limited.lost().await.why, LossReason::HoldLimit);
    ours.close().await;
    assert!(real.elapsed() < Duration::from_secs(60), "{:?}", real.elapsed());
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_behind() {
    let (_server, [ours, theirs]) = lockers();
    let guard = within("free", ours.lock(NAME)).await.expect("granted");
    let waits = theirs.lock(NAME).into_future();
    tokio::time::timeout(Duration::from_millis(20), waits).await.expect_err("held");
    guard.unlock().await.expect("held");
    let again = within("free", ours.lock(NAME)).await.expect("granted");
    assert!(again.check().is_ok());
    let busy = theirs.lock(NAME).wait(Duration::from_millis(20)).await.expect_err("held");
    assert!(busy.is_busy(), "{busy}");
}

#[tokio::test]
async fn locks_are_renewed_and_lost_on_demand() {
    let (server, [ours, theirs]) = lockers();
    let guard = within("free", ours.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    tokio::time::sleep(2 * SHORT_LEASE).await;
    guard.check().expect("renewed");
    server.forget_locks();
    let next = within("free", theirs.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    assert_eq!(within("the loss", guard.lost()).await.why, LossReason::Gone);
    assert!(next.token() > guard.token());

    server.stop();
    assert_eq!(within("the loss", next.lost()).await.why, LossReason::WindowShut);
    let error = ours.lock(NAME).fail_fast().await.expect_err("stopped");
    assert!(matches!(&error, Error::Unreachable(_)) && error.is_retryable(), "{error}");
    let waits = tokio::spawn(ours.lock(NAME).into_future());
    run_others().await;
    server.start();
    let healed = within("the server", waits).await.expect("no panic").expect("granted");
    healed.unlock().await.expect("held");
}

#[tokio::test]
async fn every_kind_of_lock_is_there() {
    let (_server, [ours, theirs]) = lockers();
    let set = within("free", ours.lock(["b", "a"])).await.expect("granted");
    assert!(theirs.try_lock("a").await.expect("an answer").is_none());
    set.unlock().await.expect("held");

    let permits = [
        ours.semaphore("p", 2).acquire().await.expect("free"),
        theirs.semaphore("p", 2).acquire().await.expect("free"),
    ];
    assert_ne!(permits[0].slot(), permits[1].slot());
    assert!(ours.semaphore("p", 2).try_acquire().await.expect("an answer").is_none());
    let holders = ours.semaphore("p", 2).holders().await.expect("an answer");
    assert!(holders.iter().all(Option::is_some), "{holders:?}");
    drop(permits);

    let readers = [
        ours.rw_lock("rw").read().await.expect("free"),
        theirs.rw_lock("rw").read().await.expect("shared"),
    ];
    assert!(ours.rw_lock("rw").try_write().await.expect("an answer").is_none());
    let holder = ours.rw_lock("rw").holder().await.expect("an answer").expect("read");
    assert!(holder.reads() && holder.holds == 2, "{holder:?}");
    drop(readers);
    let writer = within("free", ours.rw_lock("rw").write()).await.expect("granted");
    let reader = writer.downgrade().await.expect("held");
    drop(within("shared", theirs.rw_lock("rw").read()).await.expect("granted"));
    reader.unlock().await.expect("held");

    let owner = Owner::new();
    let outer = within("free", ours.lock(NAME).owner(&owner)).await.expect("granted");
    let inner = within("ours", ours.lock(NAME).owner(&owner)).await.expect("entered again");
    assert_eq!(inner.hold_count(), 2);
    drop(outer);
    inner.check().expect("one hold is left");
    let ticket = within("moved", async { inner.into_ticket() }).await.expect("held");
    let moved = within("resumed", theirs.resume(&ticket)).await.expect("held");
    let holder = ours.mutex(NAME).holder().await.expect("an answer").expect("held");
    assert!(holder.has(moved.nonce()) && holder.label.is_some(), "{holder:?}");
    let _job = within("free", ours.lock("job").label("job 7")).await.expect("granted");
    let holder = theirs.mutex("job").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.label.as_deref(), Some("job 7"));
    let _other = within("free", ours.lock("other").label("")).await.expect("granted");
    let holder = theirs.mutex("other").holder().await.expect("an answer").expect("held");
    assert!(holder.label.is_some_and(|label| !label.is_empty()), "the locker's");
}

#[test]
fn options_that_need_a_real_server_are_refused() {
    let server = MemoryServer::new();
    for (option, builder) in [
        ("replicas", Builder::without_servers().replicas(Replicas::AtLeast(1))),
        ("durable", Builder::without_servers().durable(true)),
        ("strict_order", Builder::without_servers().strict_order(true)),
        ("takeover_delay", Builder::without_servers().takeover_delay(SHORT_LEASE)),
        ("clock_bound", Builder::without_servers().clock_bound(SHORT_LEASE)),
    ] {
        let refused = builder.on(Servers::memory(&server)).expect_err(option);
        let is_it = matches!(
            &refused,
            Error::Config(ConfigError::DoesNotApply { option: found, .. }) if *found == option
        );
        assert!(is_it, "{refused}");
    }
}

/// What is a stream in the async API is an iterator without it.
#[test]
fn leaders_and_held_locks_are_iterators_without_async() {
    let server = MemoryServer::new();
    let locker = blocking::Locker::new(Servers::memory(&server)).expect("a thread");
    let election = locker.election("job");
    let mut leaders = election.observe();
    assert!(matches!(leaders.next(), Some(Ok(Leadership::Nobody))));
    let term = election.campaign().acquire().expect("nobody leads");
    assert!(matches!(leaders.next(), Some(Ok(Leadership::Leader(_)))));
    let held: Vec<_> = locker.list().collect::<Result<_, _>>().expect("an answer");
    assert_eq!(held.iter().map(|lock| &*lock.name).collect::<Vec<_>>(), ["job"]);
    assert!(locker.mutex("job").is_locked().expect("an answer"));
    term.unlock().expect("held");
    assert!(matches!(leaders.next(), Some(Ok(Leadership::Nobody))));
    locker.close().expect("closed");
    assert!(matches!(leaders.next(), Some(Err(Error::Closed))));
    assert!(leaders.next().is_none(), "an error ends it");
}
