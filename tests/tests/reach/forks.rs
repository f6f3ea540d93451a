//! What a fork of a process does with the lockers and guards of its parent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fork::Fork;
use quorumlock::{ConfigError, Error, Locker, blocking};
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{MAX_WAIT, Stopwatch};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Runs `work` in a fork of this process, and fails if it fails there, or does not end.
#[track_caller]
fn in_a_fork(work: impl FnOnce()) {
    let child = match fork::fork().expect("a process") {
        Fork::Child => {
            let done = catch_unwind(AssertUnwindSafe(work));
            std::process::exit(if done.is_ok() { 0 } else { 1 });
        }
        Fork::Parent(child) => Pid::from_raw(child).expect("an id"),
    };
    let watch = Stopwatch::start();
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).expect("a child") {
            return assert_eq!(status.exit_status(), Some(0), "the fork failed: {status:?}");
        }
        if watch.elapsed() > MAX_WAIT {
            kill_process(child, Signal::KILL).expect("a child");
            waitpid(Some(child), WaitOptions::empty()).expect("a child");
            panic!("the fork does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let Err(Error::Config(error @ ConfigError::Forked { made_by, here })) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((here, made_by == here), (std::process::id(), false));
    assert!(error.to_string().ends_with("make a locker after the fork"), "{error}");
}

#[test]
fn a_blocking_locker_of_the_parent_refuses_each_call_in_a_fork() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let locker = blocking::Locker::single(servers[0].url()).expect("a thread");
    locker.lock("warm").acquire().expect("free").unlock().expect("unlocked");
    in_a_fork(|| {
        refused(locker.lock("x").wait(Duration::from_secs(2)).acquire());
        refused(locker.try_lock("x").acquire());
        refused(locker.mutex("x").lock().run(|_| ()));
        refused(locker.mutex("x").holder());
        refused(locker.ping());
        refused(locker.close());
        drop(locker.clone());
    });
    in_a_fork(|| drop(locker));
}

#[test]
fn a_guard_of_the_parent_renews_and_releases_nothing_in_a_fork() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let url = servers[0].url();
    let locker = blocking::Locker::single(url).expect("a thread");
    let take = |name| locker.lock(name).acquire().expect("free");
    let (held, others) = (take("held"), ["dropped", "unlocked", "ticket"].map(take));
    let [dropped, unlocked, ticket] = others.map(Some).map(std::cell::Cell::new);
    in_a_fork(|| {
        refused(held.renew());
        refused(held.lost());
        drop(dropped.take());
        refused(unlocked.take().expect("one").unlock());
        refused(ticket.take().expect("one").into_ticket());
        // A locker of its own works, and finds the locks held.
        let own = blocking::Locker::single(url).expect("a thread");
        own.lock("own").acquire().expect("free").unlock().expect("unlocked");
        for name in ["held", "dropped", "unlocked", "ticket"] {
            assert!(own.mutex(name).is_locked().expect("an answer"), "{name}");
        }
        own.close().expect("closed");
    });
    held.renew().expect("held");
    for guard in [dropped, unlocked, ticket] {
        guard.take().expect("of the parent").unlock().expect("held");
    }
    held.unlock().expect("held");
}

#[test]
fn an_async_locker_of_the_parent_refuses_calls_in_a_fork() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let locker = Locker::single(servers[0].url()).expect("a thread");
    in_a_fork(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            refused(locker.lock("x").wait(Duration::from_secs(2)).await);
            refused(locker.mutex("x").is_locked().await);
            locker.close().await;
            drop(locker);
        });
    });
}
