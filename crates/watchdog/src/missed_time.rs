//! Pure: time that one clock missed and another saw.
//!
//! A paused or restored virtual machine may stop the clock that counts leases, while the wall clock
//! is corrected afterwards, or the raw hardware counter goes on. The clock that moved furthest is
//! believed: this ends leases early, never late (SAFETY.md A2, H5).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Several clocks, read one right after the other, in nanoseconds; each has its own zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSample {
    pub(crate) base: u64,
    pub(crate) others: [u64; OTHERS],
}

pub(crate) const OTHERS: usize = 2;

/// What the base clock has missed so far.
#[derive(Debug)]
pub(crate) struct MissedTime {
    /// By how much each other clock was ahead of the base when it was last compared.
    ahead: [AtomicI64; OTHERS],
    missed: AtomicU64,
    comparing: Mutex<bool>,
}

/// Slewing and the reading itself cause differences up to this, in nanoseconds.
const TOLERANCE: u64 = 2_000_000;
/// A reading that took longer (nanoseconds) was interrupted, and says nothing about differences.
const TIGHT: u64 = 50_000;

impl MissedTime {
    pub(crate) const fn new() -> Self {
        Self {
            ahead: [const { AtomicI64::new(0) }; OTHERS],
            missed: AtomicU64::new(0),
            comparing: Mutex::new(false),
        }
    }

    /// The base clock, plus all time that it has missed since the first call.
    pub(crate) fn elapsed(&self, read: impl Fn() -> ClockSample) -> u64 {
        let reading = read();
        let moved = |at: usize| {
            let last = self.ahead[at].load(Ordering::Acquire);
            reading.ahead(at).abs_diff(last) > TOLERANCE
        };
        if !(0..OTHERS).any(moved) {
            return self.elapsed_early(reading.base);
        }
        self.compare(&read);
        self.elapsed_early(read().base)
    }

    /// The base clock, plus the time that it is known to have missed: never later than
    /// [`elapsed`](Self::elapsed).
    pub(crate) fn elapsed_early(&self, base: u64) -> u64 {
        base.saturating_add(self.missed.load(Ordering::Acquire))
    }

    /// What the base clock is known to have missed.
    pub(crate) fn missed(&self) -> Duration {
        Duration::from_nanos(self.missed.load(Ordering::Acquire))
    }

    fn compare(&self, read: &impl Fn() -> ClockSample) {
        let mut known = self.comparing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reading) = tight(read) else { return };
        if *known {
            let jump = |at: usize| reading.ahead(at) - self.ahead[at].load(Ordering::Acquire);
            let furthest = (0..OTHERS).map(jump).max().unwrap_or(0);
            if let Some(missed) = u64::try_from(furthest).ok().filter(|missed| *missed > TOLERANCE)
            {
                self.missed.fetch_add(missed, Ordering::AcqRel);
            }
        }
        *known = true;
        // Stored after `missed`: a thread that sees the new differences also sees the missed time.
        for at in 0..OTHERS {
            self.ahead[at].store(reading.ahead(at), Ordering::Release);
        }
    }
}

impl ClockSample {
    fn ahead(&self, at: usize) -> i64 {
        self.others[at].wrapping_sub(self.base).cast_signed()
    }
}

/// A reading that nothing interrupted.
fn tight(read: &impl Fn() -> ClockSample) -> Option<ClockSample> {
    const MAX_TRIES: usize = 100;
    let mut reading = read();
    for _ in 0..MAX_TRIES {
        let next = read();
        if next.base.saturating_sub(reading.base) < TIGHT {
            return Some(reading);
        }
        reading = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A machine with a boot-time clock, a wall clock and a hardware counter.
    struct Machine {
        missed_time: MissedTime,
        clocks: [Cell<u64>; 3],
    }

    impl Machine {
        fn new() -> Self {
            let clocks = [7 * SECOND, 1_700_000_000 * SECOND, 5 * SECOND].map(Cell::new);
            let machine = Self { missed_time: MissedTime::new(), clocks };
            machine.now();
            machine
        }

        /// Each clock advances by this much.
        fn pass(&self, by: [i64; 3]) {
            for (clock, by) in self.clocks.iter().zip(by) {
                clock.set(clock.get().saturating_add_signed(by));
            }
        }

        fn now(&self) -> u64 {
            let [base, wall, raw] = &self.clocks;
            let read = || ClockSample { base: base.get(), others: [wall.get(), raw.get()] };
            self.missed_time.elapsed(read)
        }

        /// How much the lease clock advances when the clocks advance by this much.
        fn counted(&self, by: [i64; 3]) -> u64 {
            let before = self.now();
            self.pass(by);
            self.now() - before
        }
    }

    const S: i64 = SECOND as i64;

    /// SAFETY.md H5.
    #[test]
    fn the_clock_that_moved_furthest_is_believed_once() {
        let machine = Machine::new();
        assert_eq!(machine.counted([S, S, S]), SECOND);
        assert_eq!(machine.counted([0, 14 * S, 14 * S]), 14 * SECOND, "a pause: not twice");
        assert_eq!(machine.counted([0, 3 * S, 0]), 3 * SECOND, "set right after a pause");
        assert_eq!(machine.counted([S, S, S]), SECOND);
    }

    /// A lease that counts from the early instant ends early, never late.
    #[test]
    fn the_early_one_does_not_see_what_nobody_has_looked_for_and_is_never_ahead() {
        let machine = Machine::new();
        let early = || machine.missed_time.elapsed_early(machine.clocks[0].get());
        let before = machine.now();
        assert_eq!(early(), before);
        machine.pass([S, 14 * S, 14 * S]);
        assert_eq!(early() - before, SECOND, "not yet");
        assert_eq!(machine.now() - before, 14 * SECOND);
        assert_eq!(early() - before, 14 * SECOND, "as soon as one has");
    }

    #[test]
    fn it_never_goes_back_and_counts_suspend() {
        let machine = Machine::new();
        assert_eq!(machine.counted([S, -3_600 * S, S]), SECOND, "the wall clock is set back");
        assert_eq!(machine.counted([S, S, S]), SECOND, "and goes on from there");
        assert_eq!(machine.counted([9 * S, 9 * S, 0]), 9 * SECOND, "the counter sleeps");
        assert_eq!(machine.counted([S, S, S]), SECOND);
        assert_eq!(machine.counted([S, 3_601 * S, S]), 3_601 * SECOND, "set forward: believed");
    }

    #[test]
    fn small_differences_are_not_added_up() {
        let machine = Machine::new();
        let before = machine.now();
        for _ in 0..1_000 {
            machine.pass([S, S + 1_000_000, S]);
            machine.now();
            machine.pass([S, S - 1_000_000, S]);
            machine.now();
        }
        assert_eq!(machine.now() - before, 2_000 * SECOND);
    }
}
