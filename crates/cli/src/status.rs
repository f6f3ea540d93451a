//! `quorumlock status`: who holds a lock, the permits of a name, or a read-write lock.

use std::fmt;

use quorumlock::Holder;
use quorumlock_command::{Outcome, print};
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::permits;
use crate::read_write::{self, ReadWriteStatus};
use crate::text::{Held, Left, Who, no_node_url};

/// Say whether a lock is held, by whom and for how long.
///
/// With --permits: say how many permits of the name are held, and who holds each slot.
///
/// With --read-write: say how many readers hold the read-write lock of the name, or which writer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Look at the K permits of the name (1 to 256), not at its lock.
    #[arg(long, value_name = "K", value_parser = permits::number())]
    permits: Option<u32>,

    /// Look at the read-write lock of the name. A name is a lock or a read-write lock.
    #[arg(long, conflicts_with = "permits")]
    read_write: bool,

    /// Exit with 1 if the lock is held, or with --permits if no slot is free (else 0).
    #[arg(long)]
    exit_code: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The lock's name.
    name: String,
}

pub(crate) async fn status(args: Args) -> Outcome {
    no_node_url(&args.name)?;
    let locker = args.nodes.locker()?;
    let taken = match args.permits {
        None if args.read_write => {
            let holder = locker.read_write_holder(&args.name).await?;
            let status = ReadWriteStatus::new(args.name, holder);
            print(args.json, &status)?;
            status.held
        }
        None => {
            let holder = match locker.holder(&args.name).await {
                Ok(holder) => holder,
                Err(error) => return Err(read_write::advise(error, &locker, &args.name).await),
            };
            let status = Status::new(args.name, holder);
            print(args.json, &status)?;
            status.held
        }
        Some(permits) => {
            let holders = locker.permit_holders(&args.name, permits).await?;
            let status = PermitsStatus::new(args.name, holders);
            print(args.json, &status)?;
            status.held == status.permits
        }
    };
    Ok(u8::from(args.exit_code && taken))
}

#[derive(Debug, Serialize)]
struct Status {
    name: String,
    held: bool,
    holder: Option<Held>,
}

#[derive(Debug, Serialize)]
struct PermitsStatus {
    name: String,
    permits: usize,
    /// How many of them are held.
    held: usize,
    slots: Vec<SlotStatus>,
}

#[derive(Debug, Serialize)]
struct SlotStatus {
    slot: usize,
    held: bool,
    holder: Option<Held>,
}

impl Status {
    fn new(name: String, holder: Option<Holder>) -> Self {
        Self { name, held: holder.is_some(), holder: holder.map(Held::from) }
    }
}

impl PermitsStatus {
    fn new(name: String, holders: Vec<Option<Holder>>) -> Self {
        let slot = |(slot, holder): (_, Option<Holder>)| SlotStatus {
            slot,
            held: holder.is_some(),
            holder: holder.map(Held::from),
        };
        let slots = holders.into_iter().enumerate().map(slot).collect::<Vec<_>>();
        let held = slots.iter().filter(|slot| slot.held).count();
        Self { name, permits: slots.len(), held, slots }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, Told(self.holder.as_ref()))
    }
}

impl fmt::Display for PermitsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, permits, held, slots } = self;
        write!(f, "{name}: {held} of {permits} permits held")?;
        slots.iter().try_for_each(|SlotStatus { slot, holder, .. }| {
            write!(f, "\n  slot {slot}: {}", Told(holder.as_ref()))
        })
    }
}

/// A holder, or none, as people read it.
struct Told<'a>(Option<&'a Held>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Held { id, label, remaining_ms, holds }) = self.0 else {
            return f.write_str("free");
        };
        write!(f, "held by {}", Who { id, label: label.as_deref() })?;
        if *holds > 1 {
            write!(f, " ({holds} holds)")?;
        }
        Left(*remaining_ms).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_who_and_for_how_long() {
        let held = |remaining_ms, holds| Status {
            name: "x".into(),
            held: true,
            holder: Some(Held { id: "7f".into(), label: None, remaining_ms, holds }),
        };
        let text = held(Some(1_500), 1).to_string();
        assert_eq!(text, "x: held by 7f, for another 1s 500ms unless renewed");
        assert_eq!(held(None, 2).to_string(), "x: held by 7f (2 holds), without an expiry");
        assert_eq!(Status { name: "x".into(), held: false, holder: None }.to_string(), "x: free");
    }

    #[test]
    fn people_read_how_many_permits_are_held_and_then_each_slot() {
        let held = || {
            Some(Held {
                label: Some("web-3:4711".into()),
                remaining_ms: Some(2_000),
                id: "7f".into(),
                holds: 1,
            })
        };
        let slots = [None, held(), None].into_iter().enumerate();
        let slots = slots.map(|(slot, holder)| SlotStatus { slot, held: holder.is_some(), holder });
        let status =
            PermitsStatus { name: "x".into(), permits: 3, held: 1, slots: slots.collect() };
        let slot = "slot 1: held by web-3:4711 (7f), for another 2s unless renewed";
        let text = format!("x: 1 of 3 permits held\n  slot 0: free\n  {slot}\n  slot 2: free");
        assert_eq!(status.to_string(), text);
    }
}
