//! Which fencing tokens an acquisition proposes to the nodes.
//!
//! The order of tokens rests on the nodes, which accept only tokens above their mark (SAFETY.md
//! G3). The proposal decides only whether they accept it at once.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::{Claim, FencingToken, Name};

/// Proposes tokens for the acquisitions of one locker.
#[derive(Debug)]
pub struct Proposals {
    /// For each slot, the largest token that was proposed here or that a node showed.
    seen: Box<[AtomicU64]>,
    /// The correction of our wall clock, in microseconds.
    correction: AtomicI64,
}

/// A smaller difference between wall clocks is not corrected: it costs other clients at most one
/// round trip, and for no longer than the difference.
const TOLERANCE_MICROS: i64 = 5_000_000;

impl Default for Proposals {
    fn default() -> Self {
        Self::new()
    }
}

impl Proposals {
    /// No token is proposed yet, and the clock is not corrected.
    pub fn new() -> Self {
        let seen = (0..Name::SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { seen, correction: AtomicI64::new(0) }
    }

    /// The token that an acquisition of `claim` proposes first. `wall_micros` is our wall clock, in
    /// microseconds since 1970.
    pub fn first(&self, claim: &Claim, wall_micros: u64) -> FencingToken {
        self.propose(claim, wall_micros, Duration::ZERO)
    }

    /// The token that is proposed next, because a node has the mark `above`. The last trip took
    /// `took`; the next one may take as long, and the clocks of other clients go on meanwhile.
    pub fn raised(
        &self,
        claim: &Claim,
        above: FencingToken,
        wall_micros: u64,
        took: Duration,
    ) -> FencingToken {
        self.saw(claim, above);
        self.propose(claim, wall_micros, took * 2)
    }

    /// Takes the differences between the nodes' wall clocks and ours, in microseconds. Corrects
    /// ours by their median if that exceeds the tolerance, and otherwise by nothing.
    pub fn compare_clocks(&self, offsets: impl Iterator<Item = i64> + Clone) {
        let is_right = |offset: i64| offset.abs() <= TOLERANCE_MICROS;
        // Every acquisition comes here, and nearly always returns here.
        if self.correction.load(Ordering::Relaxed) == 0 && offsets.clone().all(is_right) {
            return;
        }
        let mut offsets: Vec<_> = offsets.collect();
        offsets.sort_unstable();
        let Some(median) = offsets.get(offsets.len() / 2).copied() else { return };
        let correction = if is_right(median) { 0 } else { median };
        if self.correction.swap(correction, Ordering::Relaxed) == 0 && correction != 0 {
            let seconds = correction / 1_000_000;
            tracing::warn!(
                seconds,
                "the servers' clocks differ from ours: fencing tokens follow theirs"
            );
        }
    }

    /// Each call gets its own block, above what each slot of the claim has seen.
    fn propose(&self, claim: &Claim, wall_micros: u64, head_start: Duration) -> FencingToken {
        let correction = self.correction.load(Ordering::Relaxed);
        let now = wall_micros.saturating_add_signed(correction);
        let now = now.saturating_add(u64::try_from(head_start.as_micros()).unwrap_or(u64::MAX));
        let next = |seen| Some(next_token(now, seen));
        let of_slot = |name: &Name| {
            let seen = &self.seen[name.slot()];
            let before = seen.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            FencingToken::new(next_token(now, before.unwrap_or_default()))
        };
        let token = claim.names().map(of_slot).max().unwrap_or(FencingToken::NONE);
        if !claim.is_one() {
            self.saw(claim, token);
        }
        token
    }

    fn saw(&self, claim: &Claim, token: FencingToken) {
        for name in claim.names() {
            self.seen[name.slot()].fetch_max(token.get(), Ordering::Relaxed);
        }
    }
}

/// The last token of a block that lies above `seen`; it is not before `now`.
fn next_token(now: u64, seen: u64) -> u64 {
    // The node must refuse a mark that leaves no room, because its refusal names the key.
    let seen = if seen >= FencingToken::FULL.get() { 0 } else { seen };
    now.max(seen + FencingToken::BLOCK) | (FencingToken::BLOCK - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_790_000_000_000_000;

    fn name() -> Claim {
        Name::new("x").unwrap().into()
    }

    #[test]
    fn proposals_follow_the_clock_and_never_repeat() {
        let proposals = Proposals::new();
        let first = proposals.first(&name(), NOW);
        let second = proposals.first(&name(), NOW);
        assert!(second.get() >= first.get() + FencingToken::BLOCK);
        let other = Claim::from(Name::new("y").unwrap());
        assert_ne!(other.name().slot(), name().name().slot());
        assert!(proposals.first(&other, NOW) <= second, "each slot has its own");
    }

    #[test]
    fn a_mark_that_was_seen_is_passed_from_then_on() {
        let proposals = Proposals::new();
        let ahead = FencingToken::new(proposals.first(&name(), NOW).get() + 3_600_000_000);
        assert!(proposals.raised(&name(), ahead, NOW, Duration::ZERO) > ahead);
        assert!(proposals.first(&name(), NOW) > ahead);
    }

    #[test]
    fn a_clock_that_is_off_by_an_hour_is_corrected_and_one_by_a_second_is_not() {
        let proposals = Proposals::new();
        let hour = 3_600_000_000;
        let before = proposals.first(&name(), NOW).get();
        proposals.compare_clocks([hour, -1_000_000, hour].into_iter());
        assert!(proposals.first(&name(), NOW).get() >= before + hour.unsigned_abs() - 1_000_000);
        let proposals = Proposals::new();
        proposals.compare_clocks([-1_000_000, hour, -1_000_000].into_iter());
        assert!(proposals.first(&name(), NOW).get() < before + hour.unsigned_abs() / 2);
    }

    #[test]
    fn a_mark_without_room_is_not_followed() {
        assert!(next_token(NOW, FencingToken::MAX.get()) < NOW + FencingToken::BLOCK);
        assert!(next_token(NOW, FencingToken::FULL.get() - 1) <= FencingToken::MAX.get());
    }

    proptest! {
        #[test]
        fn blocks_never_overlap(now in 0..NOW * 2, seen in 0..NOW * 2) {
            let token = next_token(now, seen);
            prop_assert!(token >= now && token % FencingToken::BLOCK == FencingToken::BLOCK - 1);
            prop_assert!(token - (FencingToken::BLOCK - 1) > seen, "{} {}", token, seen);
        }
    }
}
