//! A service that takes its servers from the environment, and warns before a lock is lost.
//!
//! `QUORUMLOCK_NODES=redis://127.0.0.1 cargo run -p quorumlock --example from_env`
//!
//! While it runs, stop the server for a while: `kill -STOP`, later `kill -CONT`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Builder, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let locker = Builder::from_env()?.prefix("example:").build()?;
    locker.ping().await?; // is a majority there? No lock is needed
    let mutex = locker.mutex("report");

    let guard = match mutex.lock().wait(Duration::from_secs(5)).lease(lease()).await {
        Err(error) if error.is_busy() => {
            println!("come back later: {error}");
            return Ok(());
        }
        guard => guard?,
    };
    println!("holds {} for 20 seconds", guard.name());
    let view = guard.view();
    let warning = tokio::spawn(async move {
        view.at_risk().await;
        println!("valid for {:?} unless a server answers", view.valid_for());
    });
    let work = guard.run(tokio::time::sleep(Duration::from_secs(20))).await;
    warning.abort();
    work?;
    guard.unlock().await
}

fn lease() -> Duration {
    Duration::from_secs(6)
}
