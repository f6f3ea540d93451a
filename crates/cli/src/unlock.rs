//! `quorumlock unlock --force`: takes a lock away from its holder.

use std::fmt;

use quorumlock_command::{Failure, Outcome, print};
use serde::Serialize;

use crate::nodes::LockNodes;

/// Take a lock away from its holder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Confirm: the holder may still be at work.
    #[arg(long)]
    force: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The lock's name.
    name: String,
}

pub(crate) async fn unlock(args: Args) -> Outcome {
    if !args.force {
        return Err(Failure::usage(
            "a lock is released by its holder, and a holder that died loses it when its lease \
             ends. To take it away from whoever holds it, who may still be at work, add --force",
        ));
    }
    let released = args.nodes.locker()?.force_unlock(&args.name).await?;
    print(args.json, &Unlocked { name: args.name, released })?;
    Ok(0)
}

#[derive(Debug, Serialize)]
struct Unlocked {
    name: String,
    /// Whether the lock was held.
    released: bool,
}

impl fmt::Display for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, released } = self;
        let what = if *released { "taken away from its holder" } else { "was free" };
        write!(f, "{name}: {what}")
    }
}
