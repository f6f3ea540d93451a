//! What is measured, how often, in which order.

use std::time::Duration;

/// The workloads, in the order in which they are run.
pub const ALL: [&str; 10] = ["P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9", "P10", "P7"];
/// The growth curves, which are run only when asked for.
pub const GROWTH: &str = "growth";

/// What one run measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which workloads, in order.
    pub ids: Vec<&'static str>,
    /// How many rounds; in each, every subject has its lap.
    pub rounds: usize,
    /// Shorter laps: for a look, not for figures.
    pub quick: bool,
}

impl Plan {
    /// `only` is a list such as `P1,P5`; all workloads without it.
    ///
    /// # Errors
    /// The word that is no workload.
    pub fn new(only: Option<&str>, rounds: Option<usize>, quick: bool) -> Result<Self, String> {
        let words = only.unwrap_or_default().split(',').map(str::trim);
        let mut ids = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            let known = ALL.into_iter().chain([GROWTH]);
            let mut known = known.filter(|id| id.eq_ignore_ascii_case(word));
            ids.push(known.next().ok_or_else(|| format!("{word:?} is no workload"))?);
        }
        if ids.is_empty() {
            ids = ALL.to_vec();
        }
        let rounds = rounds.unwrap_or(if quick { 3 } else { 5 }).max(1);
        Ok(Self { ids, rounds, quick })
    }

    /// How long a lap lasts that takes `millis` in a full run.
    #[must_use]
    pub fn lap(&self, millis: u64) -> Duration {
        Duration::from_millis(if self.quick { millis.div_ceil(3) } else { millis })
    }

    /// Of what one task alone does: how long a lap is, and how many rounds there are. Many brief ones, since
    /// a busy machine has phases of seconds, and ratios are of one round.
    #[must_use]
    pub fn brief(&self) -> (Duration, usize) {
        (self.lap(400) / BRIEF, self.rounds * BRIEF as usize)
    }
}

const BRIEF: u32 = 20;

/// In which order `subjects` have their laps in a round: each starts once, and the direction
/// changes, so that none always runs after the same other one.
#[must_use]
pub fn order(subjects: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..subjects).collect();
    order.rotate_left(round.checked_rem(subjects).unwrap_or(0));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_workloads_can_be_asked_for() {
        let ids = |only| Plan::new(only, None, false).map(|plan| plan.ids);
        assert_eq!(ids(None), Ok(ALL.to_vec()));
        assert_eq!(ids(Some("")), Ok(ALL.to_vec()));
        assert_eq!(ids(Some("p5, P1")), Ok(vec!["P5", "P1"]));
        assert_eq!(ids(Some("growth")), Ok(vec![GROWTH]));
        assert!(ids(Some("P1,P11")).unwrap_err().contains("P11"));
    }

    #[test]
    fn five_rounds_unless_one_only_looks() {
        assert_eq!(Plan::new(None, None, false).unwrap().rounds, 5);
        assert_eq!(Plan::new(None, None, true).unwrap().rounds, 3);
        assert_eq!(Plan::new(None, Some(9), true).unwrap().rounds, 9);
    }

    #[test]
    fn everybody_runs_once_a_round_and_nobody_always_first() {
        for subjects in 0..6 {
            for round in 0..7 {
                let mut sorted = order(subjects, round);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..subjects).collect::<Vec<_>>());
            }
        }
        let firsts: Vec<_> = (0..4).map(|round| order(4, round)[0]).collect();
        assert!((0..4).any(|subject| firsts[0] != firsts[subject]), "{firsts:?}");
    }
}
