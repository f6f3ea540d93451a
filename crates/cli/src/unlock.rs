//! `quorumlock unlock --force`: takes a lock, or a permit, away from its holder.

use std::fmt;

use quorumlock_command::{Failure, Outcome, print};
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::permits;

/// Take a lock, or a permit, away from its holder.
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

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The lock's name.
    name: String,
}

pub(crate) async fn unlock(args: Args) -> Outcome {
    if !args.force {
        return Err(Failure::usage(
            "a lock or a permit is released by its holder, and a holder that died loses it when its \
             lease ends. To take it away from whoever holds it, who may still be at work, add --force",
        ));
    }
    let locker = args.nodes.locker()?;
    let released = match args.slot {
        None => locker.force_unlock(&args.name).await?,
        Some(slot) => locker.force_release_permit(&args.name, slot).await?,
    };
    print(args.json, &Unlocked { name: args.name, slot: args.slot, released })?;
    Ok(0)
}

#[derive(Debug, Serialize)]
struct Unlocked {
    name: String,
    /// Of a permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    /// Whether it was held.
    released: bool,
}

impl fmt::Display for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(slot) = self.slot {
            write!(f, ", slot {slot}")?;
        }
        f.write_str(if self.released { ": taken away from its holder" } else { ": was free" })
    }
}
