//! A store that refuses stale tokens, which a lease alone cannot do. A holder falls asleep, loses
//! the lock, wakes up and writes; its write is refused.
//!
//! `cargo run -p quorumlock --example fenced_store -- redis://127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Mutex;
use std::time::Duration;

use quorumlock::{Error, FencingToken, Locker};

/// A balance, and the largest token that it has seen. Check and change are one step, here under a
/// mutex; in SQL: `UPDATE account SET fence = $token WHERE id = 7 AND fence <= $token`.
#[derive(Default)]
struct Account(Mutex<(FencingToken, i64)>);

impl Account {
    /// Claims, **then** reads. If a holder only read first, an older one could still write between
    /// that read and our write, with the largest token seen so far: a lost update.
    fn claim(&self, token: FencingToken) -> Result<i64, String> {
        self.change(token, |balance| *balance)
    }

    fn write(&self, token: FencingToken, value: i64) -> Result<(), String> {
        self.change(token, |balance| *balance = value)
    }

    fn change<T>(&self, token: FencingToken, act: impl FnOnce(&mut i64) -> T) -> Result<T, String> {
        let mut state = self.0.lock().map_err(|e| e.to_string())?;
        if token < state.0 {
            return Err(format!("token {token} is stale: {} has claimed", state.0));
        }
        state.0 = token;
        Ok(act(&mut state.1))
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locker = Locker::single(url)?;
    let account = Account::default();
    let lock = || locker.lock("example/account");

    let slow = lock().hold_at_most(Duration::from_millis(500)).await?;
    let seen = account.claim(slow.token());
    println!("token {} reads {seen:?}, and falls asleep with its lock", slow.token());

    // Acquired when the first lock has ended, which its holder does not know yet.
    let quick = lock().await?;
    let balance = account.claim(quick.token()).unwrap_or_default();
    println!("token {} adds 100: {:?}", quick.token(), account.write(quick.token(), balance + 100));
    quick.unlock().await?;

    println!("token {} adds 1: {:?}", slow.token(), account.write(slow.token(), 1));
    println!("balance: {}", account.0.lock().map_or(0, |state| state.1));
    Ok(())
}
