//! When a waiter looks again, and how: decided here, and done by the quest (SAFETY.md H22, d1, d2). Advice,
//! never safety.

use std::time::Duration;

use quorumlock_watchdog::Instant;

use super::wake::Woken;

/// What a waiter has seen so far, and how it asks next.
#[derive(Debug)]
pub(super) struct Looks {
    /// Ask the gate first, and the others only once it has granted.
    pub(super) gate_first: bool,
    /// Leave a free lock to those who were woken.
    pub(super) others_first: bool,
    /// Stand in line at all nodes: not everybody who has the lock has the gate (SAFETY.md d6).
    pub(super) everywhere: bool,
    woken: bool,
    /// It stands in line when it asks.
    in_line: bool,
    /// How often in a row it asked from there and got too few nodes, though the gate did not refuse.
    in_vain: u32,
    /// When the lease that was in the way last ends.
    ends: Instant,
    /// The lease in the way is another one than before, or renewed.
    moves_on: bool,
    /// How often in a row the lock was free, and left to others.
    polite: u32,
}

/// An attempt that got nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denied {
    pub(super) asked: Instant,
    /// How long the lease in the way lasts, if there is one and that is known.
    pub(super) remaining: Option<Duration>,
    /// The gate refused, and the others were not asked.
    pub(super) kept_out: bool,
}

/// Who waits, where, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standpoint {
    pub(super) lease: Duration,
    pub(super) waited: Duration,
    pub(super) nodes: usize,
}

impl Looks {
    /// Of one who asks all nodes at once; or, if others were woken by its own release, after them.
    pub(super) fn begin(others_first: bool) -> Self {
        Self {
            gate_first: others_first,
            others_first,
            everywhere: false,
            woken: false,
            in_line: others_first,
            in_vain: 0,
            ends: Instant::NEVER,
            moves_on: false,
            polite: 0,
        }
    }

    /// Notes what an attempt came to.
    pub(super) fn denied(&mut self, denied: Denied) {
        let Denied { asked, remaining, kept_out } = denied;
        self.in_vain = if kept_out { 0 } else { self.in_vain + u32::from(self.in_line) };
        self.in_line = true;
        self.everywhere |= self.in_vain > 1;
        let polite = self.others_first && remaining.is_none();
        self.polite = if polite { self.polite + 1 } else { 0 };
        self.moves_on = remaining.is_some_and(|left| {
            let before = std::mem::replace(&mut self.ends, asked + left);
            before == Instant::NEVER || self.ends > before + JITTER
        });
    }

    /// How long it waits at most for somebody to wake it: `share` of the way from half of that to all of it,
    /// so that not all look at once.
    pub(super) fn longest(
        &self,
        remaining: Option<Duration>,
        place: Standpoint,
        share: f64,
    ) -> Duration {
        let Standpoint { lease, waited, nodes } = place;
        // Whoever was woken in our place may have died since: ask again.
        let mut probe = LONGEST_PROBE.max(waited / 4).min(lease / 3);
        if self.gate_first && nodes > 1 {
            // Whoever has the gate may have died before it had the others: ask all of them, soon
            // (SAFETY.md d1). Not while the lock is seen to change hands.
            probe = LONGEST_PROBE.min(lease / 8) * (1 + u32::from(self.moves_on));
        }
        if self.in_vain > 0 {
            // Its turn goes on, and nobody else was woken: others hold the name, who wake it, or asked
            // for it at the same time, who do not.
            probe = probe.min(SOON * (1 << self.in_vain.min(8)));
        }
        if self.polite > 0 {
            // They come at once, or never.
            probe = probe.min(COURTESY);
        }
        // A foreign lease may claim any length (SAFETY.md H7): look again after one of ours.
        let longest = remaining.unwrap_or(lease).min(lease);
        longest.min(probe.mul_f64(0.5 + 0.5 * share)) + Duration::from_millis(1)
    }

    /// What woke it, if anything did.
    pub(super) fn woken(&mut self, woken: Option<Woken>) {
        self.woken = woken.is_some();
        // Whoever looks by itself while others have their turns leaves them those. If nothing moves,
        // whoever has the gate may have died before it had the others (SAFETY.md d1).
        self.gate_first = match woken {
            // Nobody else was told, and who asks by itself lets it go first: a trip less (SAFETY.md d1).
            Some(Woken::Turn) => false,
            // From where it stands, too: the gate may not have been asked.
            Some(Woken::ByOthers) => !self.everywhere,
            Some(Woken::ByGate) => true,
            None => self.moves_on || self.polite > 0 || self.in_vain > 0,
        };
        let leaves_it = match woken {
            Some(Woken::Turn | Woken::ByGate) => false,
            // Not again and again: what wakes it may be its own release of an attempt in vain (SAFETY.md e6).
            Some(Woken::ByOthers) => self.polite < MOST_POLITE,
            // Free for a moment only, perhaps: several times.
            None => self.moves_on || (1..MOST_POLITE).contains(&self.polite),
        };
        self.others_first = leaves_it && self.in_vain == 0;
    }

    /// Within how long it asks: equals split the votes again and again unless they spread, where the gate
    /// keeps nobody apart (SAFETY.md d2).
    pub(super) fn spread(&self) -> Option<Duration> {
        let spreads = self.woken && self.in_vain > FEW;
        spreads.then(|| SPREAD * (self.in_vain - FEW).min(16))
    }
}

/// How exactly the end of a lease is seen from afar.
const JITTER: Duration = Duration::from_millis(50);
/// How long we wait for others that our release woke.
const COURTESY: Duration = Duration::from_millis(75);
/// So often in a row the lock is found free before it is taken for nobody's: where nodes are far away it is
/// free for much of the time, on its way from one to the next.
const MOST_POLITE: u32 = 4;
/// How long a waiter believes, at most, that whoever has the gate will have the others too.
const LONGEST_PROBE: Duration = Duration::from_millis(250);
/// The step by which a turn that was in vain waits longer each time.
const SOON: Duration = Duration::from_millis(8);
/// The step by which retries on several nodes spread, after a few that did not.
const SPREAD: Duration = Duration::from_millis(1);
const FEW: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use quorumlock_watchdog::Clock;

    const LEASE: Duration = Duration::from_secs(30);
    const QUORUM: Standpoint = Standpoint { lease: LEASE, waited: Duration::ZERO, nodes: 5 };

    fn denied(asked: Instant, seconds: u64) -> Denied {
        Denied { asked, remaining: Some(Duration::from_secs(seconds)), kept_out: true }
    }

    #[test]
    fn who_was_woken_asks_the_gate_first() {
        let mut looks = Looks::begin(false);
        assert!(!looks.gate_first && !looks.others_first);
        looks.denied(denied(Clock::manual().now(), 20));
        looks.woken(Some(Woken::ByGate));
        assert!(looks.gate_first && !looks.others_first);
        looks.denied(denied(Clock::manual().now(), 20));
        looks.woken(Some(Woken::ByOthers));
        assert!(looks.gate_first && looks.others_first, "somebody else may be on its way there");
    }

    #[test]
    fn who_has_its_turn_asks_all_at_once() {
        let mut looks = Looks::begin(false);
        looks.denied(denied(Clock::manual().now(), 20));
        looks.woken(Some(Woken::Turn));
        assert!(!looks.gate_first && !looks.others_first, "a trip less (decision 22)");
    }

    /// SAFETY.md d1, d6.
    #[test]
    fn a_turn_in_vain_goes_on() {
        let now = Clock::manual().now();
        let in_vain = Denied { kept_out: false, ..denied(now, 20) };
        let mut looks = Looks::begin(false);
        looks.denied(in_vain);
        assert!(
            looks.longest(None, QUORUM, 0.0) > 10 * SOON,
            "it stood nowhere, and woke the next one"
        );
        looks.woken(Some(Woken::Turn));
        for times in 1..=3 {
            looks.denied(in_vain);
            let longest = looks.longest(None, QUORUM, 1.0);
            assert_eq!(longest, SOON * (1 << times) + Duration::from_millis(1));
            assert_eq!(looks.everywhere, times > 1, "whoever has the lock may not have the gate");
            looks.woken(if times == 2 { Some(Woken::ByOthers) } else { None });
            assert!(!looks.others_first, "it stands there itself");
            assert_eq!(looks.gate_first, times != 2, "nobody else was woken at the others");
        }
        looks.denied(denied(now, 40));
        assert!(looks.longest(None, QUORUM, 0.0) > 10 * SOON, "kept out: others have it");
    }

    #[test]
    fn who_looks_leaves_the_turn_to_others_while_the_lease_moves_on() {
        let (clock, mut looks) = (Clock::manual(), Looks::begin(false));
        for _ in 0..3 {
            looks.denied(denied(clock.now(), 20));
            looks.woken(None);
            assert!(looks.gate_first && looks.others_first);
            clock.advance(Duration::from_secs(1));
        }
        // The same lease as before: whoever has the gate may be dead (d1).
        looks.denied(denied(clock.now(), 19));
        looks.woken(None);
        assert!(!looks.gate_first && !looks.others_first);
    }

    #[test]
    fn the_end_of_a_lease_is_not_seen_exactly() {
        let (clock, mut looks) = (Clock::manual(), Looks::begin(false));
        looks.denied(denied(clock.now(), 20));
        clock.advance(JITTER);
        looks.denied(denied(clock.now(), 20));
        looks.woken(None);
        assert!(!looks.others_first);
    }

    #[test]
    fn who_let_others_go_first_looks_soon_and_at_the_gate() {
        let free = Denied { asked: Clock::manual().now(), remaining: None, kept_out: true };
        let mut looks = Looks::begin(true);
        looks.denied(free);
        assert!(looks.longest(None, QUORUM, 1.0) <= COURTESY + Duration::from_millis(1));
        for _ in 1..MOST_POLITE {
            looks.woken(None);
            assert!(looks.gate_first && looks.others_first, "it may be free for a moment only");
            looks.denied(free);
        }
        looks.woken(None);
        assert!(looks.gate_first && !looks.others_first, "they did not come");
    }

    /// The simulation's seed 712352383: its own releases woke it, and each node left the free lock to it.
    #[test]
    fn who_is_woken_by_others_leaves_a_free_lock_to_them_a_few_times_only() {
        let free = Denied { asked: Clock::manual().now(), remaining: None, kept_out: true };
        let mut looks = Looks::begin(false);
        for _ in 0..MOST_POLITE {
            looks.woken(Some(Woken::ByOthers));
            assert!(looks.others_first);
            looks.denied(free);
        }
        looks.woken(Some(Woken::ByOthers));
        assert!(!looks.others_first, "they did not come");
    }

    #[test]
    fn it_looks_again_within_a_lease_of_ours_and_not_everybody_at_once() {
        let mut looks = Looks::begin(false);
        looks.denied(denied(Clock::manual().now(), 3_600));
        let hour = Some(Duration::from_secs(3_600));
        let place = Standpoint { waited: Duration::from_secs(600), ..QUORUM };
        let (soon, late) = (looks.longest(hour, place, 0.0), looks.longest(hour, place, 1.0));
        assert!(soon < late && late <= LEASE, "{soon:?} {late:?}");
        let over = Some(Duration::ZERO);
        assert_eq!(looks.longest(over, place, 1.0), Duration::from_millis(1), "it has ended");
    }

    #[test]
    fn only_those_spread_whom_the_gate_did_not_keep_out() {
        let (now, mut kept_out, mut split) =
            (Clock::manual().now(), Looks::begin(false), Looks::begin(false));
        for _ in 0..9 {
            kept_out.denied(denied(now, 20));
            split.denied(Denied { kept_out: false, ..denied(now, 20) });
            assert_eq!(kept_out.in_vain, 0);
            kept_out.woken(Some(Woken::ByGate));
            split.woken(Some(Woken::ByGate));
        }
        assert_eq!(kept_out.spread(), None);
        assert!(split.spread().is_some_and(|spread| spread <= 16 * SPREAD));
    }
}
