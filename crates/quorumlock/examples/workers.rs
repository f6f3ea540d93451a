//! At most three of these programs work at the same time, on all hosts together, each on a shard of
//! its own.
//!
//! ```sh
//! cargo run --example workers -- redis://127.0.0.1
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(&url)?;
    let shards = locker.semaphore("shards", 3);
    let permit = shards.acquire().await?; // a fourth program waits here
    println!("shard {} of {}, token {}", permit.slot(), shards.permits(), permit.token());
    let work = async {
        for step in 1..=5 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            println!("step {step}");
        }
    };
    // The work ends before another program may have this shard.
    permit.run(work).await?;
    permit.unlock().await
}
