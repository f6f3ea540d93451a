//! One of several processes does a job, the others stand by and take over.
//!
//! Run `cargo run -p quorumlock --example singleton -- redis://127.0.0.1` in two terminals. End the
//! first by Ctrl-C (the other takes over at once), or by `kill -9` (the other takes over when the
//! lease ends). Several URLs make a quorum (see `quorumlock init`).

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, HoldView, Locker, Servers};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut urls: Vec<String> = std::env::args().skip(1).collect();
    if urls.is_empty() {
        urls.push("redis://127.0.0.1".into());
    }
    // How long the job stops after its process has died.
    let servers: Servers = urls.join(",").parse()?; // one server, or a quorum
    let locker = Locker::builder(servers).lease(Duration::from_secs(5)).build()?;

    let me = std::process::id();
    let stand_by = async {
        loop {
            println!("{me}: standing by");
            // Waits for the lock, runs the job while the lock is ours, and drops the job when it is
            // lost.
            match locker.run("example/singleton", job).await {
                Ok(()) => return Ok(()),
                // The lock was lost and the job was dropped: stand by again.
                Err(Error::Lost(lost)) => println!("{me}: {lost}"),
                // Too few servers answer: the program decides how often to ask.
                Err(error @ Error::Unreachable(_)) => {
                    println!("{me}: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => return Err(error),
            }
        }
    };
    let outcome = tokio::select! {
        outcome = stand_by => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()), // the lock was dropped together with its work
    };
    // The watchdog releases a dropped lock: wait for that before the process ends.
    locker.close().await;
    outcome
}

async fn job(lock: HoldView) {
    for round in 1.. {
        println!("{}: round {round} with token {}", std::process::id(), lock.token());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
