//! `quorumlock unlock --force`: takes a lock, a permit or a read-write lock away from its holders.

use std::fmt;

use quorumlock_command::{Failure, Outcome, print};
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::permits;
use crate::read_write;
use crate::text::no_node_url;

/// Take a lock, or a permit, away from its holder, or a read-write lock from its writer or all its
/// readers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Confirm: the holder may still be at work.
    #[arg(long)]
    force: bool,

    /// Take away the permit with slot N of the name (0 to 255), not the lock.
    #[arg(long, value_name = "N", value_parser = permits::slot())]
    slot: Option<u16>,

    /// The name is a read-write lock: take it away from its writer, or from all its readers.
    #[arg(long, conflicts_with = "slot")]
    read_write: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The lock's name.
    name: String,
}

pub(crate) async fn unlock(args: Args) -> Outcome {
    no_node_url(&args.name)?;
    if !args.force {
        return Err(Failure::usage(
            "a lock or a permit is released by its holder, and a holder that died loses it when its \
             lease ends. Its holder may still be at work: to take it away all the same, add --force",
        ));
    }
    let locker = args.nodes.locker()?;
    let released = match args.slot {
        None if args.read_write => locker.force_unlock_read_write(&args.name).await?,
        None => match locker.force_unlock(&args.name).await {
            Ok(released) => released,
            Err(error) => return Err(read_write::advise(error, &locker, &args.name).await),
        },
        Some(slot) => locker.force_release_permit(&args.name, slot).await?,
    };
    let Args { name, slot, read_write, .. } = args;
    print(args.json, &Unlocked { name, slot, read_write, released })?;
    Ok(0)
}

#[derive(Debug, Serialize)]
struct Unlocked {
    name: String,
    /// Of a permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    #[serde(skip)]
    read_write: bool,
    /// Whether it was held.
    released: bool,
}

impl fmt::Display for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(slot) = self.slot {
            write!(f, ", slot {slot}")?;
        }
        f.write_str(match (self.released, self.read_write) {
            (true, false) => ": taken away from its holder",
            (true, true) => ": taken away from its holders",
            (false, _) => ": was free",
        })
    }
}
