//! Programs read a catalog side by side; one refreshes it alone, and then reads what it has written.
//!
//! ```sh
//! cargo run --example catalog -- redis://127.0.0.1 write
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use quorumlock::{Error, Locker, ReadGuard};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1".into());
    let catalog = Locker::single(&url)?.rw_lock("catalog");
    if args.next().as_deref() != Some("write") {
        return read(catalog.read().await?).await;
    }
    let writer = catalog.write().await?; // waits until nobody reads
    println!("writes with token {}", writer.token());
    read(writer.downgrade().await?).await // no writer comes in between
}

async fn read(reader: ReadGuard) -> Result<(), Error> {
    println!("reads with token {}", reader.token());
    reader.check()?;
    reader.unlock().await
}
