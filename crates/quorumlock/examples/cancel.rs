//! Work in several tasks that stops when the lock is lost.
//!
//! `cargo run -p quorumlock --features tokio-util --example cancel -- redis://127.0.0.1`
//!
//! While it runs, take the lock away: `quorumlock unlock --force example/cancel`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;
    let guard = locker.lock("example/cancel").lease(Duration::from_secs(3)).await?;

    let mut tasks = tokio::task::JoinSet::new();
    for task in 1..=3 {
        let token = guard.cancellation_token();
        tasks.spawn(async move {
            // The work is dropped at its next await when the lock is no longer ours.
            match token.run_until_cancelled(tokio::time::sleep(Duration::from_secs(8))).await {
                Some(()) => println!("task {task} is done"),
                None => println!("task {task} is stopped"),
            }
        });
    }
    // All tasks have ended before the lock is released.
    while tasks.join_next().await.is_some() {}
    guard.unlock().await
}
