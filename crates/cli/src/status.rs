//! `quorumlock status`: who holds a lock, the permits of a name, or a read-write lock.

use std::fmt;

use quorumlock::Holder;
use quorumlock_command::{Failure, Outcome, print};
use quorumlock_protocol::Claim;
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::permits;
use crate::read_write::{self, ReadWriteStatus};
use crate::text::{Held, HeldBy, Waiters, no_node_url};

/// Say whether a lock is held, by whom and for how long.
///
/// With --permits: say how many permits of the name are held, and who holds each slot. A slot that is held
/// beyond the K permits is a sign that another program gives a larger K.
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
    let locker = args.nodes.observer()?;
    let taken = match args.permits {
        None if args.read_write => {
            let holder = locker.rw_lock(&args.name).holder().await;
            let holder = holder.map_err(Failure::of_question)?;
            let status = ReadWriteStatus::new(args.name, holder);
            print(args.json, &status)?;
            status.held
        }
        None => {
            let holder = match locker.mutex(&args.name).holder().await {
                Ok(holder) => holder,
                Err(error) => {
                    let failure = Failure::of_question;
                    return Err(read_write::advise(error, failure, &locker, &args.name).await);
                }
            };
            let status = Status::new(args.name, holder);
            print(args.json, &status)?;
            status.held
        }
        Some(permits) => {
            let holders = locker.semaphore(&args.name, Claim::MAX_PERMITS.into()).holders().await;
            let holders = holders.map_err(Failure::of_question)?;
            let status = PermitsStatus::new(args.name, permits as usize, holders);
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
    /// How many wait for it. `null`: it is not held, or it is not known.
    waiters: Option<u64>,
}

#[derive(Debug, Serialize)]
struct PermitsStatus {
    name: String,
    permits: usize,
    /// How many of them are held.
    held: usize,
    slots: Vec<SlotStatus>,
    /// The slots that are held beyond them: another program uses more permits.
    beyond: Vec<SlotStatus>,
    /// How many wait for a permit. `null`: none is held, or it is not known.
    waiters: Option<u64>,
}

#[derive(Debug, Serialize)]
struct SlotStatus {
    slot: usize,
    held: bool,
    holder: Option<Held>,
}

impl Status {
    fn new(name: String, holder: Option<Holder>) -> Self {
        let waiters = holder.as_ref().and_then(|holder| holder.waiters);
        Self { name, held: holder.is_some(), holder: holder.map(Held::from), waiters }
    }
}

impl PermitsStatus {
    /// `holders`: those of all slots that there may be.
    fn new(name: String, permits: usize, holders: Vec<Option<Holder>>) -> Self {
        // All slots have one queue.
        let waiters = holders.iter().flatten().filter_map(|holder| holder.waiters).max();
        let slot = |(slot, holder): (_, Option<Holder>)| SlotStatus {
            slot,
            held: holder.is_some(),
            holder: holder.map(Held::from),
        };
        let mut slots = holders.into_iter().enumerate().map(slot).collect::<Vec<_>>();
        let mut beyond = slots.split_off(permits.min(slots.len()));
        beyond.retain(|slot| slot.held);
        let held = slots.iter().filter(|slot| slot.held).count();
        Self { name, permits, held, slots, beyond, waiters }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.name, Told(self.holder.as_ref()), Waiters(self.waiters))
    }
}

impl fmt::Display for PermitsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, permits, held, slots, beyond, waiters } = self;
        write!(f, "{name}: {held} of {permits} permits held{}", Waiters(*waiters))?;
        slots.iter().chain(beyond).try_for_each(|SlotStatus { slot, holder, .. }| {
            write!(f, "\n  slot {slot}: {}", Told(holder.as_ref()))
        })?;
        if !beyond.is_empty() {
            write!(
                f,
                "\n  another program uses more than {permits} permits of the name: all must agree"
            )?;
        }
        Ok(())
    }
}

/// A holder, or none, as people read it.
struct Told<'a>(Option<&'a Held>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(held) => write!(f, "held by {}", HeldBy(held)),
            None => f.write_str("free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorumlock::FencingToken;

    use super::*;

    #[test]
    fn people_read_who_and_for_how_long() {
        let held = |remaining, holds| Holder::new("7f".into(), remaining, holds);
        let told = |holder| Status::new("x".into(), holder).to_string();
        let text = told(Some(held(Some(Duration::from_millis(1_500)), 1)));
        assert_eq!(text, "x: held by 7f, for another 1s 500ms unless renewed");
        assert_eq!(told(Some(held(None, 2))), "x: held by 7f (2 holds), without an expiry");
        assert_eq!(told(None), "x: free");
    }

    #[test]
    fn people_read_since_when_and_how_many_wait() {
        let told = |label: Option<&str>, token, waiters| {
            let mut holder = Holder::new("7f".into(), None, 1);
            holder.label = label.map(Into::into);
            (holder.last_token, holder.waiters) = (Some(FencingToken::new(token)), Some(waiters));
            Status::new("x".into(), Some(holder)).to_string()
        };
        let since = "since 2026-11-29T03:12:04Z (token 1795921924000031)";
        let web = "x: held by web-3 (7f), without an expiry";
        assert_eq!(told(Some("web-3"), 1_795_921_924_000_031, 0), format!("{web}, {since}"));
        // A server counts its tokens.
        assert_eq!(told(Some("web-3"), 17, 1), format!("{web}, token 17; 1 waits"));
        // Another program: the token need not be its own.
        let other = told(None, 1_795_921_924_000_031, 2);
        assert_eq!(other, "x: held by 7f, without an expiry; 2 wait");
    }

    #[test]
    fn people_read_how_many_permits_are_held_and_then_each_slot() {
        let held = || {
            let mut holder = Holder::new("7f".into(), Some(Duration::from_secs(2)), 1);
            holder.label = Some("web-3:4711".into());
            holder.waiters = Some(2);
            Some(holder)
        };
        let mut status = PermitsStatus::new("x".into(), 3, vec![None, held(), None]);
        let slot = "slot 1: held by web-3:4711 (7f), for another 2s unless renewed";
        let text =
            format!("x: 1 of 3 permits held; 2 wait\n  slot 0: free\n  {slot}\n  slot 2: free");
        assert_eq!(status.to_string(), text);
        status.beyond = vec![SlotStatus { slot: 7, held: true, holder: held().map(Held::from) }];
        let beyond = "slot 7: held by web-3:4711 (7f), for another 2s unless renewed";
        let why = "another program uses more than 3 permits of the name: all must agree";
        assert_eq!(status.to_string(), format!("{text}\n  {beyond}\n  {why}"));
    }
}
