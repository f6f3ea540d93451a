//! `quorumlock unlock --force`: takes a lock, a permit or a read-write lock away from its holders.

use std::fmt;

use quorumlock::telemetry::LockKind;
use quorumlock::{HeldLock, Holder, Locker};
use quorumlock_command::{Failure, Outcome, exit, print};
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::permits;
use crate::read_write;
use crate::text::{Held, HeldBy, Who, no_node_url};

/// Take a lock, or a permit, away from its holder, or a read-write lock from its writer or all its
/// readers.
///
/// It prints who had it, with the token: a resource that checks tokens refuses that holder from then on.
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

    /// Only if the holder with this id (as status shows it) still has it: the next one keeps it.
    #[arg(long, value_name = "ID")]
    holder: Option<String>,

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
    let locker = args.nodes.observer()?;
    // What is not known is taken away all the same.
    let holder = args.holder_now(&locker).await.ok().flatten();
    let released = match &args.holder {
        Some(id) => args.take_from_holder(&locker, id).await,
        None => args.take_from_anybody(&locker).await,
    };
    let released = match released {
        Ok(released) => released,
        Err(error) if args.slot.is_none() && !args.read_write => {
            return Err(read_write::advise(error, Failure::from, &locker, &args.name).await);
        }
        Err(error) => return Err(error.into()),
    };
    if !released
        && args.holder.is_some()
        && let Some(other) = args.holder_now(&locker).await?
    {
        let other = Held::from(other);
        let why = format!("{}: held by {}: it keeps the lock", args.name, HeldBy(&other));
        return Err(Failure::new(exit::BUSY, why));
    }
    let holder = holder.filter(|_| released).map(Held::from);
    let Args { name, slot, read_write, .. } = args;
    print(args.json, &Unlocked { name, slot, read_write, released, holder })?;
    Ok(if released { 0 } else { exit::FREE })
}

impl Args {
    async fn holder_now(&self, locker: &Locker) -> Result<Option<Holder>, quorumlock::Error> {
        match self.slot {
            None if self.read_write => locker.rw_lock(&self.name).holder().await,
            None => locker.mutex(&self.name).holder().await,
            Some(slot) => {
                let holders = locker.semaphore(&self.name, u32::from(slot) + 1).holders().await?;
                Ok(holders.into_iter().next_back().flatten())
            }
        }
    }

    async fn take_from_anybody(&self, locker: &Locker) -> Result<bool, quorumlock::Error> {
        match self.slot {
            None if self.read_write => locker.rw_lock(&self.name).force_unlock().await,
            None => locker.mutex(&self.name).force_unlock().await,
            Some(slot) => {
                locker.semaphore(&self.name, u32::from(slot) + 1).force_release(slot).await
            }
        }
    }

    async fn take_from_holder(&self, locker: &Locker, id: &str) -> Result<bool, quorumlock::Error> {
        let kind = match self.slot {
            None if self.read_write => LockKind::Write,
            None => LockKind::Lock,
            Some(_) => LockKind::Permit,
        };
        let holder = Holder::new(id.to_owned(), None, 1);
        locker.force_unlock_from(&HeldLock::of(self.name.clone(), kind, self.slot, holder)).await
    }
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
    /// From whom it was taken away. `null`: it was free, or the holder is not known.
    holder: Option<Held>,
}

impl fmt::Display for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(slot) = self.slot {
            write!(f, ", slot {slot}")?;
        }
        match (self.released, &self.holder) {
            (true, Some(Held { id, .. })) if id == Holder::READERS => {
                f.write_str(": taken away from its readers")
            }
            (true, Some(Held { id, label, last_token, .. })) => {
                write!(f, ": taken away from {}", Who { id, label: label.as_deref() })?;
                last_token.map_or(Ok(()), |token| write!(f, "; token {token}"))
            }
            (true, None) if self.read_write => f.write_str(": taken away from its holders"),
            (true, None) => f.write_str(": taken away from its holder"),
            (false, _) => f.write_str(": was free"),
        }
    }
}
