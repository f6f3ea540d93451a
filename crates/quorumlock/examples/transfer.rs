//! Two accounts under one lock: transfers in both directions never wait for each other in a ring.
//!
//! `cargo run -p quorumlock --example transfer -- redis://127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Mutex;

use quorumlock::{Error, Locker};

/// Stands for a store without transactions.
static BALANCES: Mutex<[i64; 2]> = Mutex::new([100, 100]);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;
    // With one lock inside the other, these two would stop each other.
    tokio::try_join!(transfers(&locker, 0, 1), transfers(&locker, 1, 0))?;
    println!("{:?}", balances());
    assert_eq!(balances(), [100, 100]);
    Ok(())
}

async fn transfers(locker: &Locker, from: usize, to: usize) -> Result<(), Error> {
    for _ in 0..25 {
        let names = [from, to].map(|account| format!("example/account/{account}"));
        let accounts = locker.lock(names).await?;
        let mut now = balances();
        tokio::task::yield_now().await; // a store is slow, and others want these accounts
        now[from] -= 1;
        now[to] += 1;
        accounts.check()?; // still ours? Send accounts.token() with the write
        if let Ok(mut balances) = BALANCES.lock() {
            *balances = now;
        }
        accounts.unlock().await?;
    }
    Ok(())
}

fn balances() -> [i64; 2] {
    *BALANCES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
