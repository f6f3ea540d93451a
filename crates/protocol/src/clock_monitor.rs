//! Pure: whether a node's clock keeps pace with ours, judged by the times that the node tells with
//! its answers.
//!
//! Keys expire by the node's wall clock, which can be set (SAFETY.md H6). A jump is noticed only at
//! the next answer, and a jump before the first answer is never noticed.

use std::time::Duration;

use crate::Instant;

/// Watches the clock of one node.
#[derive(Debug)]
pub struct ClockMonitor {
    max_clock_drift: f64,
    last: Option<ClockReading>,
}

/// One answer: the node's clock minus ours lies between `least` and `most`, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ClockReading {
    min_offset: i64,
    max_offset: i64,
    received: Instant,
    node_time: i64,
}

/// What is wrong with a node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockAnomaly {
    /// It was set forward by at least this: leases on the node end that much earlier.
    Forward(Duration),
    /// It was set back by at least this: leases on the node end later.
    Back(Duration),
    /// It stands still: leases on the node never end.
    Frozen,
}

/// Differences that reading clocks and scheduling cause, in microseconds.
const TOLERANCE: i64 = 2_000;
/// A clock that shows the same time for longer than this stands still.
const MAX_STANDSTILL: Duration = Duration::from_secs(1);

impl ClockMonitor {
    /// `max_clock_drift` bounds how much faster the node's clock may run than ours.
    pub fn new(max_clock_drift: f64) -> Self {
        Self { max_clock_drift, last: None }
    }

    /// The node showed `shown` (microseconds) at some instant between `asked` and `heard`.
    pub fn observe(&mut self, asked: Instant, heard: Instant, shown: i64) -> Option<ClockAnomaly> {
        let micros =
            |at: Instant| i64::try_from(at.since(Instant::NEVER).as_micros()).unwrap_or(i64::MAX);
        let (least, most) = (shown - micros(heard), shown - micros(asked));
        let new =
            ClockReading { min_offset: least, max_offset: most, received: heard, node_time: shown };
        let last = self.last.replace(new)?;
        let gone = heard.since(last.received);
        if shown == last.node_time && asked.since(last.received) > MAX_STANDSTILL {
            return Some(ClockAnomaly::Frozen);
        }
        let drift = gone.mul_f64(self.max_clock_drift).as_micros() as i64 + TOLERANCE;
        let (earliest, latest) = (last.min_offset - drift, last.max_offset + drift);
        let by = |micros: i64| Duration::from_micros(micros.unsigned_abs());
        if least > latest {
            return Some(ClockAnomaly::Forward(by(least - last.max_offset)));
        }
        if most < earliest {
            return Some(ClockAnomaly::Back(by(last.min_offset - most)));
        }
        // Both readings are true of one clock: their intersection narrows the difference down.
        self.last = Some(ClockReading {
            min_offset: least.max(earliest),
            max_offset: most.min(latest),
            received: heard,
            node_time: shown,
        });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::Clock;

    const SECOND: i64 = 1_000_000;

    struct Node {
        our_clock: Clock,
        monitor: ClockMonitor,
        node_time: i64,
    }

    impl Node {
        fn new() -> Self {
            let (ours, monitor) = (Clock::manual(), ClockMonitor::new(0.01));
            let mut node = Self { our_clock: ours, monitor, node_time: 1_700_000_000 * SECOND };
            assert_eq!(node.answer(0, 0), None);
            node
        }

        /// Our clock advances by `passed`, the node's clock by `passed` and `jump`; the answer
        /// takes 4 ms.
        fn answer(&mut self, passed: i64, jump: i64) -> Option<ClockAnomaly> {
            self.our_clock.advance(Duration::from_micros(passed.unsigned_abs()));
            let asked = self.our_clock.now();
            self.node_time += passed + jump + 2_000;
            let shown = self.node_time;
            self.our_clock.advance(Duration::from_millis(4));
            self.node_time += 2_000;
            self.monitor.observe(asked, self.our_clock.now(), shown)
        }
    }

    #[test]
    fn a_clock_that_goes_on_is_nothing_to_speak_of() {
        let mut node = Node::new();
        for second in 0..100 {
            // Slewed by less than the bound.
            assert_eq!(node.answer(SECOND, if second % 2 == 0 { 5_000 } else { -5_000 }), None);
        }
    }

    /// SAFETY.md H6.
    #[test]
    fn a_jump_is_seen_once_and_its_size_is_about_right() {
        let mut node = Node::new();
        let Some(ClockAnomaly::Forward(by)) = node.answer(SECOND, 36 * SECOND) else {
            panic!("not seen")
        };
        assert!(by > Duration::from_millis(35_990) && by <= Duration::from_secs(36), "{by:?}");
        assert_eq!(node.answer(SECOND, 0), None, "it goes on from there");
        let Some(ClockAnomaly::Back(by)) = node.answer(SECOND, -600 * SECOND) else {
            panic!("not seen")
        };
        assert!(by > Duration::from_millis(599_990) && by <= Duration::from_secs(600), "{by:?}");
        assert_eq!(node.answer(SECOND, 0), None);
    }

    #[test]
    fn a_clock_that_stands_still_is_told_apart_from_one_that_is_asked_twice() {
        let mut node = Node::new();
        node.answer(0, 0);
        let shown = node.node_time;
        node.our_clock.advance(Duration::from_secs(2));
        let asked = node.our_clock.now();
        node.monitor.observe(asked, asked, shown);
        assert_eq!(node.monitor.observe(asked, asked, shown), None, "at the same instant");
        node.our_clock.advance(Duration::from_secs(2));
        let asked = node.our_clock.now();
        assert_eq!(node.monitor.observe(asked, asked, shown), Some(ClockAnomaly::Frozen));
    }
}
