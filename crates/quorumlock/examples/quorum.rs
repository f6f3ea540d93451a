//! The same lock on a quorum: a majority of independent servers grants it. Only the line that makes
//! the locker differs from a single server.
//!
//! Start three servers that share nothing (`redis-server --port 7001`, 7002, 7003), admit them
//! (`quorumlock --node redis://127.0.0.1:7001 ... init`; otherwise they vote after a minute), then
//! run
//! `cargo run -p quorumlock --example quorum -- redis://127.0.0.1:7001 redis://127.0.0.1:7002 ...`
//! Kill one of them and run it again.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use quorumlock::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut urls: Vec<String> = std::env::args().skip(1).collect();
    if urls.is_empty() {
        urls = (7001..=7003).map(|port| format!("redis://127.0.0.1:{port}")).collect();
    }
    let locker = Locker::quorum(&urls)?;

    let guard = match locker.lock("example/quorum").wait(Duration::from_secs(5)).await {
        Ok(guard) => guard,
        Err(Error::Busy(busy)) => {
            println!("{busy}; come back later");
            return Ok(());
        }
        // The error says for each node without a vote why it gave none.
        Err(error) => return Err(error),
    };
    println!("locked on a majority of {} nodes with token {}", urls.len(), guard.token());
    if let Some(holder) = locker.mutex("example/quorum").holder().await? {
        println!("a majority says that {} holds it for {:?}", holder.id, holder.remaining);
    }
    guard.unlock().await
}
