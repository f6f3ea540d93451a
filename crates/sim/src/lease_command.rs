//! What a command does to which leases, read from its arguments. The ledger of the simulation
//! follows requests by it.

use std::sync::Arc;

use quorumlock_protocol::Nonce;
use quorumlock_redis::simulation::ScriptKind;
use smallvec::{SmallVec, smallvec};

use super::commands::restored_field;
use super::resp::Args;
use super::script::Script;

/// What a request does to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Acquire,
    /// An acquisition in a transaction.
    TxnAcquire,
    Raise,
    Renew,
    Regrant,
    Release,
}

/// A command that concerns leases, or a script of admission.
#[derive(Clone, Debug, Default)]
pub struct LeaseCommand {
    pub script: Option<Arc<Script>>,
    pub verb: Option<Verb>,
    pub nonces: SmallVec<[Nonce; 1]>,
    /// The places of the nonces among the arguments.
    pub places: SmallVec<[usize; 1]>,
    /// The nonces of the earlier attempts that an acquisition names (wait_queue.lua).
    pub earlier: SmallVec<[Nonce; 1]>,
    /// A release after which its client keeps its place in the queue, and no waiter is notified.
    pub keeps_place: bool,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquire | Self::TxnAcquire => "acquire",
            Self::Raise => "raise",
            Self::Renew => "renew",
            Self::Regrant => "regrant",
            Self::Release => "release",
        }
    }

    pub fn number(self) -> u64 {
        match self {
            Self::Acquire | Self::TxnAcquire => 1,
            Self::Raise => 2,
            Self::Renew => 3,
            Self::Release => 4,
            Self::Regrant => 7,
        }
    }

    fn of(kind: ScriptKind) -> Option<Self> {
        Some(match kind {
            ScriptKind::Acquire => Self::Acquire,
            ScriptKind::Raise => Self::Raise,
            ScriptKind::Renew => Self::Renew,
            ScriptKind::Regrant => Self::Regrant,
            ScriptKind::Release | ScriptKind::DeleteIfOurs => Self::Release,
            _ => return None,
        })
    }
}

impl LeaseCommand {
    pub fn of(args: Args<'_>) -> Self {
        match args.get(0) {
            b"EVALSHA" => Self::of_script(Script::by_digest(args.text(1)), args),
            b"EVAL" => Self::of_script(Some(Script::of(args.text(1))), args),
            b"SET" => Self::at(Verb::TxnAcquire, 2, args),
            b"RESTORE" => Self::at(Verb::TxnAcquire, 3, args),
            b"HDEL" | b"DELIFEQ" => Self::at(Verb::Release, 2, args),
            _ => Self::default(),
        }
    }

    pub fn is(&self, kind: ScriptKind) -> bool {
        self.script.as_ref().is_some_and(|script| script.kind == kind)
    }

    fn at(verb: Verb, place: usize, args: Args<'_>) -> Self {
        let text = match args.get(0) {
            b"RESTORE" => restored_field(args.get(place)).unwrap_or_default(),
            _ => args.get(place),
        };
        match nonce(text) {
            Some(nonce) => Self {
                script: None,
                verb: Some(verb),
                nonces: smallvec![nonce],
                places: smallvec![place],
                ..Self::default()
            },
            None => Self::default(),
        }
    }

    fn of_script(script: Option<Arc<Script>>, args: Args<'_>) -> Self {
        let verb = script.as_ref().and_then(|script| Verb::of(script.kind));
        let first = 3 + args.number(2);
        let mut places: SmallVec<_> = match verb {
            Some(Verb::Renew) => (first..args.len()).step_by(3).collect(),
            Some(_) => smallvec![first],
            None => SmallVec::new(),
        };
        // A handshake loads scripts by EVAL, and renews a key of its own.
        places.retain(|place| nonce(args.get(*place)).is_some());
        let nonces = places.iter().filter_map(|place| nonce(args.get(*place))).collect();
        let earlier = match verb {
            Some(Verb::Acquire) => first + 7..args.len(),
            _ => 0..0,
        };
        let earlier = earlier.filter_map(|place| nonce_of_member(args.get(place))).collect();
        let keeps_place = verb == Some(Verb::Release) && args.len() == first + 3;
        Self { script, verb, nonces, places, earlier, keeps_place }
    }
}

/// The nonce in a queue member (queue.lua).
fn nonce_of_member(member: &[u8]) -> Option<Nonce> {
    nonce(member.split(|byte| *byte == b' ').nth(2)?)
}

fn nonce(text: &[u8]) -> Option<Nonce> {
    Nonce::parse(std::str::from_utf8(text).ok()?)
}
