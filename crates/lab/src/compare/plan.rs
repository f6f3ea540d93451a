use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// What to compare, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Servers of the quorum.
    pub nodes: usize,
    /// Measuring time per mode, roughly: the fault has a least time of its own.
    pub measuring: Duration,
    /// Tasks that lock at the same time.
    pub tasks: usize,
    /// Decides which mode goes first in each round, how long jobs take, and which server dies. Not
    /// how the tasks interleave: the machine does that.
    pub seed: u64,
}

/// A plan out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {value} is out of bounds: {bounds}")]
pub struct BadPlan {
    what: &'static str,
    value: String,
    bounds: &'static str,
}

impl Plan {
    /// Checks all bounds.
    ///
    /// # Errors
    /// [`BadPlan`] says which number is out of them.
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

    /// What is measured one after the other. Both modes get the same time, in turns: what else the
    /// machine does meanwhile falls upon both.
    pub(super) fn slices(&self) -> Vec<Slice> {
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
                slices.extend(modes.map(|mode| Slice { phase, mode, lasts: time / rounds }));
            }
        }
        slices
    }
}

/// One mode is measured in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) phase: Phase,
    pub(super) mode: Mode,
    pub(super) lasts: Duration,
}

/// Where the lock lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On one server.
    Single,
    /// On a majority of several.
    Quorum,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// One task locks and unlocks a free name.
    Alone,
    /// All tasks lock and unlock, each its own name.
    Parallel,
    /// All tasks want the same name.
    Contended,
    /// Jobs go on while a server is killed and comes back empty.
    Fault,
}

const PHASES: [Phase; 4] = [Phase::Alone, Phase::Parallel, Phase::Contended, Phase::Fault];

impl Phase {
    /// Its share of the measuring time.
    fn percent(self) -> u32 {
        match self {
            Self::Alone | Self::Parallel => 15,
            Self::Contended => 30,
            Self::Fault => 40,
        }
    }

    /// Shorter than this it says nothing.
    fn least(self) -> Duration {
        match self {
            Self::Alone | Self::Parallel | Self::Contended => Duration::ZERO,
            Self::Fault => super::fault::LEAST,
        }
    }

    /// How long one mode is measured before it is the other's turn.
    fn slice(self) -> Duration {
        match self {
            Self::Alone | Self::Parallel => Duration::from_millis(250),
            // Long enough for the longest wait of the unlucky to show.
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

    fn time(slices: &[Slice], mode: Mode) -> Duration {
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
