//! One of these programs leads at a time, and a program that only watches says which.
//!
//! ```sh
//! cargo run --example leader -- redis://127.0.0.1 a &
//! cargo run --example leader -- redis://127.0.0.1 b &
//! cargo run --example leader -- redis://127.0.0.1
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use futures::TryStreamExt as _;
use quorumlock::{Error, Leadership, Locker, Servers};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1".into());
    let Some(label) = args.next() else {
        return watch(&Locker::single(&url)?).await;
    };
    let locker = Locker::builder(Servers::single(&url)).label(&label).build()?;
    let election = locker.election("scheduler");
    // The work is dropped when the lead is lost, and begins again with the next term.
    let lead = |term: quorumlock::HoldView| async move {
        loop {
            println!("leads in term {}, for another {:?}", term.token(), term.valid_for());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    election.run(lead).await
}

async fn watch(locker: &Locker) -> Result<(), Error> {
    let mut leaders = locker.election("scheduler").observe();
    while let Some(now) = leaders.try_next().await? {
        match now {
            Leadership::Leader(leader) => println!("{} leads", leader.label.unwrap_or(leader.id)),
            Leadership::Nobody => println!("nobody leads"),
            Leadership::Unknown(error) => println!("nobody knows who leads: {error}"),
            _ => {}
        }
    }
    Ok(())
}
