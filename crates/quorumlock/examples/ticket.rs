//! One process takes the lock, another one does the work under it.
//!
//! ```sh
//! ticket=$(cargo run --example ticket -- redis://127.0.0.1)
//! cargo run --example ticket -- redis://127.0.0.1 "$ticket"
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use quorumlock::{Error, Locker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(&url)?;
    let Some(ticket) = args.next() else {
        let guard = locker.lock("upload/7").await?;
        guard.renew().await?; // the other process has nearly a whole lease to come
        println!("{}", guard.into_ticket()?);
        return Ok(());
    };
    let guard = locker.resume(&ticket.parse()?).await?;
    println!("works with token {}", guard.token());
    guard.unlock().await
}
