//! `quorumlock list`: which locks are held, and by whom.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt as _;
use quorumlock::env::parse_duration;
use quorumlock::{HeldLock, Layout, Locker};
use quorumlock_command::{Failure, Outcome, print};
use quorumlock_watchdog::Clock;
use serde::Serialize;

use crate::nodes::LockNodes;
use crate::text::{Held, HeldBy, Waiters};

/// List the locks that are held: locks, read-write locks and permits, of both layouts, or of that of --layout.
///
/// The nodes look through all their keys in small steps (SCAN): it takes a while where other programs keep
/// many. The time after "since" is that of the last token in the hash slot of the name: when the lock was
/// taken, unless another name of the same slot was locked later, or the lock has no token. Of holders that
/// are no quorumlock it is unknown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Only locks of holders whose label contains TEXT, or whose id begins with it.
    #[arg(long, value_name = "TEXT")]
    holder: Option<String>,

    /// Only locks that were taken that long ago, or at a time that is unknown.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    older_than: Option<Duration>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn list(args: Args) -> Outcome {
    let mut listed = Listed { locks: Vec::new() };
    let mut seen = HashSet::new();
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(Clock::system().wall_micros());
    for locker in lockers(&args.nodes)? {
        let mut held = locker.list();
        while let Some(lock) = held.try_next().await? {
            let row = Row::from(lock);
            if !args.wants(&row, now) || !seen.insert(row.key()) {
                continue;
            } else if args.json {
                listed.locks.push(row);
            } else {
                print(false, &row)?;
            }
        }
    }
    if args.json {
        print(true, &listed)?;
    }
    Ok(0)
}

/// One for the layout that is given, or for each that the servers can have.
fn lockers(nodes: &LockNodes) -> Result<Vec<Locker>, Failure> {
    // It has the error of options that do not fit.
    let given = nodes.observer()?;
    if nodes.has("layout") {
        return Ok(vec![given]);
    }
    let mut lockers = Vec::new();
    for layout in [Layout::Redisson, Layout::Redlock] {
        lockers.extend(nodes.build((*nodes.builder).clone().observes().layout(layout))?.ok());
    }
    Ok(lockers)
}

impl Args {
    fn wants(&self, row: &Row, now: SystemTime) -> bool {
        let Held { id, label, .. } = &row.holder;
        let of_holder = |text: &str| {
            id.starts_with(text) || label.as_ref().is_some_and(|label| label.contains(text))
        };
        let old = |than: Duration| {
            row.holder
                .began()
                .is_none_or(|began| now.duration_since(began).is_ok_and(|age| age >= than))
        };
        self.holder.as_deref().is_none_or(of_holder) && self.older_than.is_none_or(old)
    }
}

#[derive(Debug, Serialize)]
struct Listed {
    locks: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// `lock`, `read`, `write` or `permit`.
    kind: &'static str,
    /// Of a permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    holder: Held,
    /// How many wait for it. `null`: it is not known.
    waiters: Option<u64>,
}

impl From<HeldLock> for Row {
    fn from(lock: HeldLock) -> Self {
        let HeldLock { name, kind, slot, holder, .. } = lock;
        let waiters = holder.waiters;
        Self { name, kind: kind.as_str(), slot, holder: holder.into(), waiters }
    }
}

impl Row {
    /// What no other row has.
    fn key(&self) -> (String, &'static str, Option<u16>) {
        (self.name.clone(), self.kind, self.slot)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, slot, holder, waiters } = self;
        f.write_str(name)?;
        match (slot, *kind) {
            (Some(slot), _) => write!(f, ", slot {slot}")?,
            (None, "lock") => {}
            (None, kind) => write!(f, ", {kind}")?,
        }
        write!(f, ": held by {}{}", HeldBy(holder), Waiters(*waiters))
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.locks.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
