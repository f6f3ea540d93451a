//! A lease goes from task to task inside a process, without a word to the nodes.
//!
//! The nodes see one acquisition that lasts longer; each holder has a token of its own, from the
//! block that the first one reserved. Bounded in number and time, so that other processes get their
//! turn.

use std::sync::Arc;
use std::sync::{OnceLock, atomic::AtomicU32};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Instant, Standing};

use super::guard::Guard;
use super::lease::Lease;
use super::locker::Inner;
use super::turns::Next;
use crate::Fence;

/// How far a lease has been handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// When the nodes granted it, and how long it stood then.
    pub(super) since: Instant,
    pub(super) window: Duration,
    /// How often it has been handed over.
    pub(super) handed: u32,
    /// The last of the tokens that were reserved.
    pub(super) last: Fence,
}

/// So often at most, and so long.
const MOST: u32 = 16;
const LONGEST: Duration = Duration::from_millis(50);

/// How many tokens to reserve while `waiting` others in this process want the name.
pub(super) fn tokens(fencing: bool, waiting: usize) -> u64 {
    match (fencing, waiting) {
        (false, _) => 0,
        (true, 0) => 1,
        (true, _) => u64::from(MOST) + 1,
    }
}

impl Series {
    /// A lease that was granted now, and the token of its first holder; `last` is that of the block.
    pub(super) fn begin(
        (since, until): (Instant, Instant),
        tokens: u64,
        last: Fence,
    ) -> (Self, Fence) {
        let window = until.since(since);
        let first = Fence::new(last.get().saturating_sub(tokens.saturating_sub(1)));
        (Self { since, window, handed: 0, last }, first)
    }
}

impl Inner {
    /// Hands a lease that nobody holds any more over to whoever waits for it in this process. False
    /// if it must be given back.
    pub(super) fn hand_over(self: &Arc<Self>, lease: &Lease) -> bool {
        let waited_for = || lease.turn().as_ref().is_some_and(|turn| turn.waiting() > 0);
        // The clock is read only if it matters.
        if !lease.series_goes_on() || !waited_for() {
            return false;
        }
        let now = self.clock.now();
        if !lease.may_be_handed_over(now) {
            return false;
        }
        let mut turn = lease.turn();
        let Some(heir) = turn.as_ref().and_then(|turn| turn.heir(lease.standing.terms().lease))
        else {
            return false;
        };
        let hold_until = heir.hold_at_most().map(|limit| now + limit);
        let successor = |until| Arc::new(lease.successor(until, hold_until, &self.clock));
        let passed = self.keeper.pass(lease, now, successor);
        let turn = { turn.take() };
        let handed = passed.is_some();
        match (passed, turn) {
            (Some(successor), turn) => {
                *successor.turn() = turn;
                heir.give(Next::Guard(Guard::new(self.clone(), successor)));
            }
            // Lost just now.
            (None, Some(turn)) => heir.give(Next::Turn(turn)),
            (None, None) => {}
        }
        handed
    }
}

impl Lease {
    fn series_goes_on(&self) -> bool {
        let Series { handed, last, .. } = self.series;
        (self.fence < last || self.fence == Fence::NONE) && handed < MOST
    }

    fn may_be_handed_over(&self, now: Instant) -> bool {
        // A window that is half shut already is a sign that the nodes do not answer.
        now.since(self.series.since) < LONGEST
            && self.standing.until().since(now) >= self.series.window / 2
    }

    /// The same on the nodes; a new one, with the next token, for whoever holds it.
    fn successor(
        &self,
        until: Instant,
        hold_until: Option<Instant>,
        clock: &quorumlock_watchdog::Clock,
    ) -> Self {
        let terms = Terms { lease: self.standing.terms().lease, until, hold_until };
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
            holds: AtomicU32::new(1),
            turn: std::sync::Mutex::new(None),
            place: OnceLock::new(),
        }
    }
}
