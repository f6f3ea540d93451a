//! A lease goes from task to task inside a process, without a word to the nodes.
//!
//! The nodes see one acquisition that lasts longer; each holder has a token of its own, from the
//! block that the first one reserved. Bounded in number and time, so that other processes get their
//! turn.

use std::sync::Arc;
use std::sync::{OnceLock, atomic::AtomicU32};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Clock, Instant, Standing};

use super::guard::Guard;
use super::lease::Lease;
use super::locker::Inner;
use super::turns::{Heir, Next, Turn};
use crate::Fence;

/// How far a lease has been handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// When the nodes granted it, and how long it stood then.
    pub(super) since: Instant,
    pub(super) window: Duration,
    /// How often it has been handed over.
    pub(super) handed: u32,
    /// The last token of the block.
    pub(super) last: Fence,
}

/// So often at most, and so long.
const MOST: u32 = 16;
const _: () = assert!((MOST as u64) < Fence::BLOCK, "each of them has a token of its own");
const LONGEST: Duration = Duration::from_millis(50);

impl Series {
    /// A lease that was granted now, and the token of its first holder; `last` is that of the block.
    pub(super) fn begin((since, until): (Instant, Instant), last: Fence) -> (Self, Fence) {
        let window = until.since(since);
        // Without fencing: none.
        let first = Fence::new(last.get().saturating_sub(Fence::BLOCK - 1));
        (Self { since, window, handed: 0, last }, first)
    }
}

impl Inner {
    /// Hands a lease that nobody holds any more, `now`, over to whoever waits for it in this process.
    /// False if it must be given back.
    pub(super) fn hand_over(self: &Arc<Self>, lease: &Lease, now: Instant) -> bool {
        let terms = lease.standing.terms();
        if !lease.may_be_handed_over(terms.until, now) {
            return false;
        }
        let Some((turn, heir)) = lease.heir(terms.lease) else { return false };
        let hold_at_most = heir.hold_at_most();
        let hold_until = hold_at_most.map(|limit| now + limit);
        let successor = |until| {
            let terms = Terms { until, hold_until, ..terms };
            Arc::new(lease.successor(terms, hold_at_most, &self.clock))
        };
        let passed = self.keeper.pass(lease, now, successor);
        let handed = passed.is_some();
        heir.give(match passed {
            Some(successor) => {
                *successor.turn() = Some(turn);
                Next::Guard(Guard::new(self.clone(), successor))
            }
            // Lost just now.
            None => Next::Turn(turn),
        });
        handed
    }
}

impl Lease {
    fn may_be_handed_over(&self, until: Instant, now: Instant) -> bool {
        let Series { since, window, handed, last } = self.series;
        let tokens_left = self.fence < last || self.fence == Fence::NONE;
        // A window that is half shut already is a sign that the nodes do not answer.
        tokens_left && handed < MOST && now.since(since) < LONGEST && until.since(now) >= window / 2
    }

    /// The next in this process, if it can take over a lease of `ttl`, and the turn that goes to it.
    fn heir(&self, ttl: Duration) -> Option<(Turn, Heir)> {
        let mut turn = self.turn();
        let heir = turn.as_ref()?.heir(ttl)?;
        turn.take().map(|turn| (turn, heir))
    }

    /// The same on the nodes; a new one, with the next token, for whoever holds it.
    fn successor(&self, terms: Terms, hold_at_most: Option<Duration>, clock: &Clock) -> Self {
        Self {
            id: self.id,
            name: self.name.clone(),
            nonce: self.nonce,
            fence: match self.fence {
                Fence::NONE => Fence::NONE,
                fence => Fence::new(fence.get() + 1),
            },
            series: Series { handed: self.series.handed + 1, ..self.series },
            standing: Standing::new(clock.clone(), terms),
            hold_at_most,
            holds: AtomicU32::new(1),
            turn: std::sync::Mutex::new(None),
            place: OnceLock::new(),
        }
    }
}
