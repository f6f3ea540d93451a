use std::time::Duration;

use crate::mode::Mode;
use crate::record::Load;
use crate::runner::Trial;
use crate::scenario::{Scenario, c1_locks, c2_server_killed};
use quorumlock_sim::Dice;

/// What to compare, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Servers of the quorum.
    pub nodes: usize,
    /// The approximate measuring time per mode. The run with a fault has a minimum of its own.
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

/// One server, and a quorum under strict admission.
pub(super) const MODES: [Mode; 2] = [Mode::S, Mode::QQ];

/// How long one mode is measured before the other mode is measured: long enough to contain the
/// longest wait of a task.
const ROUND: Duration = Duration::from_secs(3);

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

    /// The runs in order. The modes take turns, so that other load on the machine affects both.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        let Self { nodes, tasks, measuring, seed } = *self;
        let without_fault = measuring * 3 / 5;
        let rounds = (without_fault.as_millis() / ROUND.as_millis()).clamp(1, 8) as u32;
        let mut dice = Dice::new(seed, 0);
        let mut trials = Vec::new();
        let mut round = |scenario: &'static Scenario, repetition, time: Duration| {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let load = Some(Load { nodes, tasks, ms });
            let mut modes = MODES;
            modes.rotate_left(dice.within(0, 1) as usize);
            trials.extend(modes.map(|mode| Trial {
                scenario,
                mode,
                seed,
                repetition,
                quick: false,
                load,
                takeover_delay_ms: None,
                library: None,
            }));
        };
        for repetition in 0..rounds {
            round(&c1_locks::SCENARIO, repetition.into(), without_fault / rounds);
        }
        round(&c2_server_killed::SCENARIO, 0, measuring - without_fault);
        trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seconds: u64, seed: u64) -> Plan {
        Plan { nodes: 5, measuring: Duration::from_secs(seconds), tasks: 64, seed }
    }

    fn time(plan: Plan, mode: Mode) -> u64 {
        let trials = plan.trials();
        let of_mode = trials.iter().filter(|trial| trial.mode == mode);
        of_mode.filter_map(|trial| trial.load).map(|load| load.ms).sum()
    }

    fn order(seed: u64) -> Vec<Mode> {
        plan(20, seed).trials().iter().map(|trial| trial.mode).collect()
    }

    #[test]
    fn both_modes_get_the_same_time_in_turns() {
        for mode in MODES {
            assert_eq!(time(plan(10, 1), mode), 10_000);
            assert_eq!(time(plan(1, 1), mode), 1_000);
        }
        let trials = plan(10, 1).trials();
        assert_eq!(trials.len(), 6);
        for pair in trials.chunks(2) {
            assert_ne!(pair[0].mode, pair[1].mode);
            assert_eq!((pair[0].scenario.id, pair[0].load), (pair[1].scenario.id, pair[1].load));
        }
    }

    #[test]
    fn the_seed_decides_who_goes_first() {
        assert_eq!(order(7), order(7));
        assert!((0..9).any(|seed| order(seed) != order(99)));
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
