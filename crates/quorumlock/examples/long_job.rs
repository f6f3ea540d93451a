//! A job that takes longer than the lease: the watchdog renews it, and the work is dropped if the
//! lock is lost.
//!
//! `cargo run -p quorumlock --example long_job -- redis://127.0.0.1`
//!
//! While it runs, take the lock away: `quorumlock unlock --force example/long_job`, or
//! `redis-cli del example/long_job`. The job learns of it at the next renewal.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, HoldView, Locker, Lost};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;

    // Without a renewal the lock is free after three seconds; the watchdog renews it every second.
    let guard = locker.lock("example/long_job").lease(Duration::from_secs(3)).await?;

    // Another task can watch the lock, too: a `HoldView` is cloneable and does not keep the lock held.
    let view = guard.view();
    tokio::spawn(async move { println!("the lock is no longer ours: {}", view.lost().await.why) });

    // The job is dropped at its next await when the lock is lost, before the lease ends.
    match guard.run(job(guard.view())).await {
        Ok(Ok(steps)) => println!("all {steps} steps done"),
        Ok(Err(lost)) | Err(lost) => {
            println!("stopped: {lost}");
            return Ok(());
        }
    }
    guard.unlock().await
}

/// Eight seconds of work in steps.
async fn job(lock: HoldView) -> Result<u32, Lost> {
    let steps = 8;
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Blocking work cannot be dropped, so it checks the lock itself before each step that
        // matters.
        lock.check()?;
        println!("step {step}, valid for {:?}", lock.valid_for());
    }
    Ok(steps)
}
