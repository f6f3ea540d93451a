//! One of several processes does a job, the others stand by and take over.
//!
//! Run `cargo run -p quorumlock --example singleton -- redis://127.0.0.1` in two terminals; end the
//! first by Ctrl-C (the other takes over at once), or by `kill -9` (when the lease has ended).
//! Several URLs make a quorum (see `quorumlock init`).

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, Locker, Watch};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut urls: Vec<String> = std::env::args().skip(1).collect();
    if urls.is_empty() {
        urls.push("redis://127.0.0.1".into());
    }
    // How long the job stands still after its process died.
    let builder = Locker::builder().lease(Duration::from_secs(5));
    let locker = match &urls[..] {
        [url] => builder.single(url)?,
        _ => builder.quorum(&urls)?,
    };

    let me = std::process::id();
    let stand_by = async {
        loop {
            println!("{me}: standing by");
            // Waits, works while the lock is ours, and drops the work when it is lost.
            match locker.run("example/singleton", job).await {
                Ok(()) => return Ok(()),
                // No longer ours: the work was dropped. Stand by again.
                Err(Error::Lost(lost)) => println!("{me}: {lost}"),
                // Too few servers answer: it is for us to decide how often to ask.
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
    // A dropped lock is released in the background: wait for that before the process ends.
    locker.close().await;
    outcome
}

async fn job(lock: Watch) {
    for round in 1.. {
        println!("{}: round {round} with token {}", std::process::id(), lock.fence());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
