//! Pure: whether a node's clock goes on as ours does, from the times that it tells with its answers.
//!
//! Keys expire by the node's wall clock, which can be set (SAFETY.md H6). Between two answers a jump
//! is not seen, and before the first one never.

use std::time::Duration;

use quorumlock_watchdog::Instant;

/// What the node's clock was seen to do.
#[derive(Debug)]
pub(super) struct Pulse {
    rho: f64,
    last: Option<Beat>,
}

/// One answer: the node's clock minus ours lies between `least` and `most`, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Beat {
    least: i64,
    most: i64,
    heard: Instant,
    shown: i64,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Odd {
    /// It was set forward by so much at least: leases there end so much earlier.
    Forward(Duration),
    /// It was set back: leases there end later.
    Back(Duration),
    /// It stands still: leases there never end.
    Frozen,
}

/// What reading clocks and scheduling make.
const TOLERANCE: i64 = 2_000;
/// A clock that shows the same for so long stands still.
const LONG: Duration = Duration::from_secs(1);

impl Pulse {
    /// `rho` bounds how much faster the node's clock may run than ours.
    pub(super) fn new(rho: f64) -> Self {
        Self { rho, last: None }
    }

    /// The node showed `shown` (microseconds) at some instant between `asked` and `heard`.
    pub(super) fn beat(&mut self, asked: Instant, heard: Instant, shown: i64) -> Option<Odd> {
        let micros =
            |at: Instant| i64::try_from(at.since(Instant::NEVER).as_micros()).unwrap_or(i64::MAX);
        let (least, most) = (shown - micros(heard), shown - micros(asked));
        let new = Beat { least, most, heard, shown };
        let last = self.last.replace(new)?;
        let gone = heard.since(last.heard);
        if shown == last.shown && asked.since(last.heard) > LONG {
            return Some(Odd::Frozen);
        }
        let drift = gone.mul_f64(self.rho).as_micros() as i64 + TOLERANCE;
        let (earliest, latest) = (last.least - drift, last.most + drift);
        let by = |micros: i64| Duration::from_micros(micros.unsigned_abs());
        if least > latest {
            return Some(Odd::Forward(by(least - last.most)));
        }
        if most < earliest {
            return Some(Odd::Back(by(last.least - most)));
        }
        // Both are true of one clock: keep what narrows it down.
        self.last = Some(Beat { least: least.max(earliest), most: most.min(latest), heard, shown });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorumlock_watchdog::Clock;

    const SECOND: i64 = 1_000_000;

    struct Node {
        ours: Clock,
        pulse: Pulse,
        shown: i64,
    }

    impl Node {
        fn new() -> Self {
            let (ours, pulse) = (Clock::manual(), Pulse::new(0.01));
            let mut node = Self { ours, pulse, shown: 1_700_000_000 * SECOND };
            assert_eq!(node.beat(0, 0), None);
            node
        }

        /// Our clock goes on by so much, the node's too and by `jump` more; the answer takes 4 ms.
        fn beat(&mut self, passed: i64, jump: i64) -> Option<Odd> {
            self.ours.advance(Duration::from_micros(passed.unsigned_abs()));
            let asked = self.ours.now();
            self.shown += passed + jump + 2_000;
            let shown = self.shown;
            self.ours.advance(Duration::from_millis(4));
            self.shown += 2_000;
            self.pulse.beat(asked, self.ours.now(), shown)
        }
    }

    #[test]
    fn a_clock_that_goes_on_is_nothing_to_speak_of() {
        let mut node = Node::new();
        for second in 0..100 {
            // Slewed by less than rho.
            assert_eq!(node.beat(SECOND, if second % 2 == 0 { 5_000 } else { -5_000 }), None);
        }
    }

    /// SAFETY.md H6.
    #[test]
    fn a_jump_is_seen_once_and_its_size_is_about_right() {
        let mut node = Node::new();
        let Some(Odd::Forward(by)) = node.beat(SECOND, 36 * SECOND) else { panic!("not seen") };
        assert!(by > Duration::from_millis(35_990) && by <= Duration::from_secs(36), "{by:?}");
        assert_eq!(node.beat(SECOND, 0), None, "it goes on from there");
        let Some(Odd::Back(by)) = node.beat(SECOND, -600 * SECOND) else { panic!("not seen") };
        assert!(by > Duration::from_millis(599_990) && by <= Duration::from_secs(600), "{by:?}");
        assert_eq!(node.beat(SECOND, 0), None);
    }

    #[test]
    fn a_clock_that_stands_still_is_told_apart_from_one_that_is_asked_twice() {
        let mut node = Node::new();
        node.beat(0, 0);
        let shown = node.shown;
        node.ours.advance(Duration::from_secs(2));
        let asked = node.ours.now();
        node.pulse.beat(asked, asked, shown);
        assert_eq!(node.pulse.beat(asked, asked, shown), None, "at the same instant");
        node.ours.advance(Duration::from_secs(2));
        let asked = node.ours.now();
        assert_eq!(node.pulse.beat(asked, asked, shown), Some(Odd::Frozen));
    }
}
