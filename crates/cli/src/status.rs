//! `quorumlock status`: who holds a lock.

use std::fmt;
use std::time::Duration;

use quorumlock::Holder;
use quorumlock_command::{Outcome, print};
use serde::Serialize;

use crate::nodes::{LockNodes, millis};

/// Say whether a lock is held, by whom and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Exit with 1 if the lock is held (0 if it is free).
    #[arg(long)]
    exit_code: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// The lock's name.
    name: String,
}

pub(crate) async fn status(args: Args) -> Outcome {
    let holder = args.nodes.locker()?.holder(&args.name).await?;
    let status = Status { name: args.name, held: holder.is_some(), holder: holder.map(Held::from) };
    print(args.json, &status)?;
    Ok(u8::from(args.exit_code && status.held))
}

#[derive(Debug, Serialize)]
struct Status {
    name: String,
    held: bool,
    holder: Option<Held>,
}

#[derive(Debug, Serialize)]
struct Held {
    id: String,
    /// `null`: the key never expires, so that only its writer ends the lock.
    remaining_ms: Option<u64>,
    holds: u32,
}

impl From<Holder> for Held {
    fn from(holder: Holder) -> Self {
        Self { id: holder.id, remaining_ms: holder.remaining.map(millis), holds: holder.holds }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Held { id, remaining_ms, holds }) = &self.holder else {
            return write!(f, "{}: free", self.name);
        };
        write!(f, "{}: held by {id}", self.name)?;
        if *holds > 1 {
            write!(f, " ({holds} holds)")?;
        }
        match remaining_ms {
            Some(ms) => {
                let left = humantime::format_duration(Duration::from_millis(*ms));
                write!(f, ", for another {left} unless renewed")
            }
            None => f.write_str(", without an expiry"),
        }
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
            holder: Some(Held { id: "7f".into(), remaining_ms, holds }),
        };
        let text = held(Some(1_500), 1).to_string();
        assert_eq!(text, "x: held by 7f, for another 1s 500ms unless renewed");
        assert_eq!(held(None, 2).to_string(), "x: held by 7f (2 holds), without an expiry");
        assert_eq!(Status { name: "x".into(), held: false, holder: None }.to_string(), "x: free");
    }
}
