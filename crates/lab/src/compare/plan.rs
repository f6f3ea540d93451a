use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// What to compare, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Servers of the quorum.
    pub nodes: usize,
    /// The approximate measuring time per mode. The fault phase has a minimum of its own.
    pub measuring: Duration,
    /// Tasks that lock at the same time.
    pub tasks: usize,
    /// Determines which mode goes first in each round, how long jobs take, and which server is
    /// killed. It does not determine how the tasks interleave.
    pub seed: u64,
}

/// A number of the plan is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {value} is out of bounds: {bounds}")]
pub struct BadPlan {
    what: &'static str,
    value: String,
    bounds: &'static str,
}

impl Plan {
    /// Checks that all numbers are within their bounds.
    ///
    /// # Errors
    /// [`BadPlan`] names the number that is out of bounds.
    pub fn check(&self) -> Result<(), BadPlan> {
        let bad = |what, value, bounds| Err(BadPlan { what, value, bounds });
        if !(1..=25).contains(&self.nodes) {
            return bad("a number of nodes", self.nodes.to_string(), "1 to 25");
        }
        if !(2..=4_096).contains(&self.tasks) {
            return bad("a number of tasks", self.tasks.to_string(), "2 to 4096");
        }
        if self.measuring.is_zero() || self.measuring > Duration::from_secs(3_600) {
            let value = format!("{:?}", self.measuring);
            return bad("a measuring time", value, "more than none, 1 hour at most");
        }
        Ok(())
    }

    /// The measurements in order. Both modes get the same time in alternating slices, so that other
    /// load on the machine affects both.
    pub(super) fn slices(&self) -> Vec<PhaseSpan> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut slices = Vec::new();
        for phase in PHASES {
            let time = (self.measuring * phase.percent() / 100).max(phase.least());
            let rounds = u32::try_from((time.as_nanos() / phase.slice().as_nanos()).clamp(1, 8));
            let rounds = rounds.unwrap_or(1);
            for _ in 0..rounds {
                let mut modes = [Mode::Single, Mode::Quorum];
                if random.random_bool(0.5) {
                    modes.reverse();
                }
                slices.extend(modes.map(|mode| PhaseSpan { phase, mode, lasts: time / rounds }));
            }
        }
        slices
    }
}

/// A slice: one mode is measured in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseSpan {
    pub(super) phase: Phase,
    pub(super) mode: Mode,
    pub(super) lasts: Duration,
}

/// Where the lock is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On one server.
    Single,
    /// On a majority of several.
    Quorum,
}

/// A phase of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// One task locks and unlocks a free name.
    Alone,
    /// All tasks lock and unlock, each its own name.
    Parallel,
    /// All tasks contend for one name.
    Contended,
    /// Jobs continue while a server is killed and restarted empty.
    Fault,
}

const PHASES: [Phase; 4] = [Phase::Alone, Phase::Parallel, Phase::Contended, Phase::Fault];

impl Phase {
    /// The phase's share of the measuring time in percent.
    fn percent(self) -> u32 {
        match self {
            Self::Alone | Self::Parallel => 15,
            Self::Contended => 30,
            Self::Fault => 40,
        }
    }

    /// The least duration that gives meaningful results.
    fn least(self) -> Duration {
        match self {
            Self::Alone | Self::Parallel | Self::Contended => Duration::ZERO,
            Self::Fault => super::fault::MIN_DURATION,
        }
    }

    /// How long one mode is measured before the other mode is measured.
    fn slice(self) -> Duration {
        match self {
            Self::Alone | Self::Parallel => Duration::from_millis(250),
            // Long enough to contain the longest wait of a task.
            Self::Contended => Duration::from_millis(1_500),
            Self::Fault => Duration::MAX,
        }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Alone => "one task, a free lock",
            Self::Parallel => "many tasks, a lock each",
            Self::Contended => "many tasks, one lock",
            Self::Fault => "a server is killed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seconds: u64, seed: u64) -> Plan {
        Plan { nodes: 5, measuring: Duration::from_secs(seconds), tasks: 64, seed }
    }

    fn time(slices: &[PhaseSpan], mode: Mode) -> Duration {
        slices.iter().filter(|slice| slice.mode == mode).map(|slice| slice.lasts).sum()
    }

    #[test]
    fn both_modes_get_the_same_time_in_turns() {
        let slices = plan(10, 1).slices();
        assert_eq!(time(&slices, Mode::Single), time(&slices, Mode::Quorum));
        assert_eq!(time(&slices, Mode::Single), Duration::from_secs(10));
        assert!(slices.chunks(2).all(|pair| pair[0].mode != pair[1].mode));
        assert!(slices.chunks(2).all(|pair| pair[0].phase == pair[1].phase));
    }

    #[test]
    fn the_seed_decides_who_goes_first() {
        assert_eq!(plan(10, 7).slices(), plan(10, 7).slices());
        assert!((0..9).any(|seed| plan(10, seed).slices() != plan(10, 99).slices()));
    }

    #[test]
    fn the_shortest_plan_still_has_every_phase() {
        let least = Plan { measuring: Duration::from_nanos(1), ..plan(1, 1) };
        let slices = least.slices();
        assert!(PHASES.iter().all(|phase| slices.iter().any(|slice| slice.phase == *phase)));
    }

    #[test]
    fn numbers_out_of_bounds_are_named() {
        assert_eq!(plan(10, 1).check(), Ok(()));
        let bad = |plan: Plan| plan.check().unwrap_err().to_string();
        let nodes = bad(Plan { nodes: 0, ..plan(10, 1) });
        assert_eq!(nodes, "a number of nodes of 0 is out of bounds: 1 to 25");
        assert!(bad(Plan { tasks: 1, ..plan(10, 1) }).contains("tasks of 1 "));
        assert!(bad(plan(0, 1)).contains("measuring time"));
        assert!(bad(plan(3_601, 1)).contains("measuring time"));
    }
}
