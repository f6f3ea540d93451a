//! The shortest use: one server, one lock. Run it twice at the same time.
//!
//! `cargo run -p quorumlock --example minimal -- redis://127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example prints")]

use quorumlock::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;

    let guard = locker.lock("example/minimal").await?;
    println!("locked with token {}, valid for {:?}", guard.token(), guard.valid_for());
    // The guarded work goes here; send the token along with every write.
    guard.unlock().await
}
