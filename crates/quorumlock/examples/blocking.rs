//! The same locks without async, from plain threads: a counter that is read, then written.
//!
//! `cargo run -p quorumlock --example blocking -- redis://127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quorumlock::blocking::Locker;
use quorumlock::{Error, Owner};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;
    let counter = AtomicU32::new(0);

    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| count(&locker, &counter))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    println!("4 threads counted to {} of 100", counter.load(Ordering::Relaxed));
    Ok(())
}

fn count(locker: &Locker, counter: &AtomicU32) -> Result<(), Error> {
    // One owner per thread: the thread can take its own lock again, other threads cannot.
    let owner = Owner::new();
    let lock = || locker.lock("example/blocking").wait(Duration::from_secs(10)).owner(&owner);
    for _ in 0..25 {
        let guard = lock().acquire()?;
        let before = counter.load(Ordering::Relaxed);
        {
            let inner = lock().acquire()?; // the same lease, with the same token
            assert_eq!((inner.token(), inner.hold_count()), (guard.token(), 2));
        }
        thread::yield_now();
        guard.check()?; // still ours? No call in between was needed to keep it
        counter.store(before + 1, Ordering::Relaxed);
        guard.unlock()?;
    }
    Ok(())
}
