//! Groups runs: all runs of a scenario in a mode, with one takeover delay, form one result.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use super::words::{count, counted, time};
use crate::judge::{Proportion, overtakings_per_1000, wilson};
use crate::mode::Mode;
use crate::record::{Expected, Run, agrees};

/// All results of a scenario.
#[derive(Debug)]
pub(super) struct Scenario<'a> {
    /// Its id.
    pub(super) id: &'a str,
    /// The title.
    pub(super) title: &'a str,
    /// What happens in it.
    pub(super) story: &'a str,
    /// One result for each mode and takeover delay.
    pub(super) results: Vec<ModeResult<'a>>,
}

/// The result of a scenario in a mode with a takeover delay, over all repetitions.
#[derive(Debug)]
pub(super) struct ModeResult<'a> {
    /// The mode.
    pub(super) mode: &'a str,
    /// The takeover delay.
    pub(super) delay_ms: u64,
    /// What theory predicts.
    pub(super) expected: Expected,
    /// The runs, with their directories.
    pub(super) runs: Vec<Placed<'a>>,
}

/// A run, and the directory it is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    /// The index of the directory.
    pub(super) source: usize,
    /// The run.
    pub(super) run: &'a Run,
}

/// Groups the runs. Scenarios are in the order of their ids, modes in the order of the lab.
pub(super) fn scenarios<'a>(runs: impl IntoIterator<Item = Placed<'a>>) -> Vec<Scenario<'a>> {
    let mut scenarios = Vec::<Scenario<'a>>::new();
    for placed in runs {
        let run = placed.run;
        let place = scenarios.iter().position(|scenario| scenario.id == run.scenario);
        let place = place.unwrap_or_else(|| {
            let Run { scenario: id, title, story, .. } = run;
            scenarios.push(Scenario { id, title, story, results: Vec::new() });
            scenarios.len() - 1
        });
        let results = &mut scenarios[place].results;
        // If the expectation has changed between two labs, the scenario has two results.
        let same = |one: &&mut ModeResult<'_>| {
            (one.mode, one.delay_ms, one.expected)
                == (&*run.mode, run.takeover_delay_ms, run.expected)
        };
        match results.iter_mut().find(same) {
            Some(result) => result.runs.push(placed),
            None => results.push(ModeResult {
                mode: &run.mode,
                delay_ms: run.takeover_delay_ms,
                expected: run.expected,
                runs: vec![placed],
            }),
        }
    }
    scenarios.sort_by_key(|scenario| (scenario.id.len(), scenario.id));
    for scenario in &mut scenarios {
        scenario.results.sort_by_key(|result| (rank(result.mode), result.delay_ms));
    }
    scenarios
}

/// The rank of a mode in the lab's order; other libraries come after quorumlock. Unknown modes come
/// last.
pub(super) fn rank(mode: &str) -> (usize, &str) {
    let (mode, library) = mode.split_once(':').unwrap_or((mode, ""));
    let known = Mode::ALL.iter().position(|known| known.to_string() == mode);
    (known.unwrap_or(Mode::ALL.len()), library)
}

/// All modes, in the order of the lab's own list.
pub(super) fn modes<'a>(scenarios: &[Scenario<'a>]) -> Vec<&'a str> {
    let mut modes = Vec::new();
    for result in scenarios.iter().flat_map(|scenario| &scenario.results) {
        if !modes.contains(&result.mode) {
            modes.push(result.mode);
        }
    }
    modes.sort_by_key(|mode| rank(mode));
    modes
}

impl Scenario<'_> {
    /// The leases of its modes, if they are known and differ: `R 6 s, RS 24 s`. Times of modes with
    /// different leases cannot be compared.
    pub(super) fn different_leases(&self) -> Option<String> {
        let mut leases = Vec::new();
        for result in &self.results {
            for lease in result.each().map(|run| run.lease_ms).collect::<BTreeSet<_>>() {
                leases.push((result.mode, lease));
            }
        }
        let first = leases.first()?.1;
        let differ = leases.iter().any(|(_, lease)| *lease != first);
        let known = leases.iter().all(|(_, lease)| *lease > 0);
        let texts = leases
            .iter()
            .map(|(mode, lease)| format!("{mode} {}", time(Duration::from_millis(*lease))));
        (differ && known).then(|| texts.collect::<Vec<_>>().join(", "))
    }

    /// The takeover delays of its runs.
    pub(super) fn delays_ms(&self) -> BTreeSet<u64> {
        self.results.iter().map(|result| result.delay_ms).collect()
    }
}

impl<'a> ModeResult<'a> {
    /// The mode, and the takeover delay if there is one: `QQ +1.5 s`.
    pub(super) fn label(&self) -> Cow<'a, str> {
        match self.delay() {
            Some(delay) => format!("{} +{delay}", self.mode).into(),
            None => self.mode.into(),
        }
    }

    /// The takeover delay, if there is one.
    pub(super) fn delay(&self) -> Option<String> {
        (self.delay_ms > 0).then(|| time(Duration::from_millis(self.delay_ms)))
    }

    /// Iterates over the runs.
    pub(super) fn each(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().map(|placed| placed.run)
    }

    /// The sum of a value over all runs.
    pub(super) fn sum(&self, of: impl Fn(&Run) -> u64) -> u64 {
        self.each().map(of).sum()
    }

    /// The largest value of the runs that measured it.
    pub(super) fn worst(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        self.each().filter_map(of).filter(|value| value.is_finite()).max_by(f64::total_cmp)
    }

    /// Whether the result agrees with theory ([`agrees`]).
    pub(super) fn as_expected(&self) -> Option<bool> {
        agrees(&self.each().collect::<Vec<_>>())
    }

    /// The first recorded step at which a run got stuck.
    pub(super) fn stuck(&self) -> Option<&str> {
        self.each().find_map(|run| run.stuck.as_deref())
    }

    /// The number of runs with a violation.
    pub(super) fn violated_runs(&self) -> u64 {
        self.sum(|run| u64::from(run.observed.violations > 0))
    }

    /// The share of runs with a violation, with its confidence interval.
    pub(super) fn violated_share(&self) -> Proportion {
        wilson(self.violated_runs(), self.runs.len() as u64)
    }

    /// Requests per grant, over all runs that counted requests.
    pub(super) fn requests_per_success(&self) -> Option<f64> {
        let counted = self.each().filter_map(|run| {
            let grants = run.observed.grants as f64;
            run.observed.requests_per_success.map(|requests| (requests * grants, grants))
        });
        let (requests, grants) =
            counted.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        (grants > 0.0).then(|| requests / grants)
    }

    /// Grants of 1,000 that overtook a call, over all runs.
    pub(super) fn overtakings_per_1000(&self) -> Option<f64> {
        let overtakings = self.sum(|run| run.observed.overtakings);
        overtakings_per_1000(overtakings, self.sum(|run| run.observed.grants))
    }

    /// The longest vacancy of each run.
    pub(super) fn vacancies(&self) -> Vec<Duration> {
        self.each()
            .filter_map(|run| Duration::try_from_secs_f64(run.observed.vacancy_ms / 1e3).ok())
            .collect()
    }

    /// The outcome, whatever theory predicts.
    pub(super) fn outcome(&self) -> Outcome {
        let any = |of: fn(&Run) -> u64| self.sum(of) > 0;
        let (fell, stale) =
            (any(|run| run.observed.violations), any(|run| run.observed.stale_effects));
        let refused = any(|run| run.observed.refused_effects);
        if stale || (fell && !refused) {
            Outcome::Violated
        } else if refused {
            Outcome::Fenced
        } else if self.expected == Expected::Refused && self.each().all(|run| run.as_expected) {
            Outcome::Refused
        } else if self.sum(|run| run.observed.grants) == 0 {
            Outcome::Nothing
        } else if self.expected == Expected::Disordered
            && any(|run| run.observed.tokens_out_of_order)
        {
            Outcome::Disordered
        } else {
            Outcome::Held
        }
    }

    /// The observation in a word or two.
    pub(super) fn observed(&self) -> &'static str {
        self.observation().0
    }

    /// In how many of the runs that was observed: `1 of 3 runs`; `3 runs` if in all.
    pub(super) fn observed_in(&self) -> String {
        let seen = self.observation().1;
        let (seen, all) = (self.sum(|run| u64::from(seen(run))), self.runs.len() as u64);
        let runs = counted(all, "run");
        if seen == all { runs } else { format!("{} of {runs}", count(seen)) }
    }

    /// The observation, and whether a run shows it.
    fn observation(&self) -> (&'static str, fn(&Run) -> bool) {
        let any = |of: fn(&Run) -> bool| self.each().any(of);
        let fell = |run: &Run| run.observed.violations > 0;
        let stale = |run: &Run| run.observed.stale_effects > 0;
        let refused = |run: &Run| run.observed.refused_effects > 0;
        let falls = |run: &Run| run.observed.tokens_out_of_order > 0;
        if any(fell) && any(stale) {
            let either = |run: &Run| run.observed.violations > 0 || run.observed.stale_effects > 0;
            ("violation, stale writes", either)
        } else if any(fell) && any(refused) {
            let either =
                |run: &Run| run.observed.violations > 0 || run.observed.refused_effects > 0;
            ("violation, stale writes refused", either)
        } else if any(fell) {
            ("violation", fell)
        } else if any(stale) {
            ("stale writes", stale)
        } else if any(refused) {
            ("stale writes refused", refused)
        } else if self.expected == Expected::Disordered && any(falls) {
            ("tokens fall", falls)
        } else if self.expected == Expected::Refused && self.each().all(|run| run.as_expected) {
            ("refused", |_| true)
        } else if self.sum(|run| run.observed.grants) == 0 {
            // Without grants, nothing is known about exclusion.
            ("nothing granted", |_| true)
        } else {
            ("no violation", |_| true)
        }
    }
}

/// Where exclusion stands after a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It held.
    Held,
    /// It fell, and the resource refused every stale effect.
    Fenced,
    /// It fell, or the resource accepted a stale effect.
    Violated,
    /// It held, and tokens fell.
    Disordered,
    /// The library refused.
    Refused,
    /// Nothing was granted, so nothing is known.
    Nothing,
}

impl Outcome {
    /// All outcomes that tell something.
    pub(super) const ALL: [Self; 5] =
        [Self::Held, Self::Fenced, Self::Violated, Self::Disordered, Self::Refused];

    /// The class of its colour, and a word for it.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Held => ("held", "held"),
            Self::Fenced => ("fenced", "fenced"),
            Self::Violated => ("violated", "VIOLATED"),
            Self::Disordered => ("disordered", "tokens fell"),
            Self::Refused => ("refused", "refused"),
            Self::Nothing => ("open", "nothing granted"),
        }
    }
}

/// The prediction in a word or two.
pub(super) fn expectation(expected: Expected) -> &'static str {
    match expected {
        Expected::Ok => "no violation",
        Expected::Violation => "violation",
        Expected::Fenced => "stale writes refused",
        Expected::Disordered => "tokens fall",
        Expected::Refused => "refused",
        Expected::Any => "either",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::{run, seen};

    fn of(runs: &[Run]) -> ModeResult<'_> {
        let placed = runs.iter().map(|run| Placed { source: 0, run });
        let mut scenarios = scenarios(placed);
        assert_eq!(scenarios.len(), 1);
        scenarios.remove(0).results.remove(0)
    }

    #[test]
    fn without_a_grant_nothing_is_said_of_exclusion() {
        let mut runs = [seen(Expected::Ok, 0, false)];
        assert_eq!(of(&runs).observed(), "nothing granted");
        runs[0].observed.grants = 1;
        assert_eq!(of(&runs).observed(), "no violation");
    }

    #[test]
    fn numbers_over_all_runs() {
        let mut runs = [seen(Expected::Violation, 1, true), seen(Expected::Violation, 0, false)];
        (runs[0].observed.grants, runs[1].observed.grants) = (10, 30);
        runs[0].observed.requests_per_success = Some(8.0);
        runs[1].observed.requests_per_success = Some(4.0);
        runs[1].observed.handover_p99_ms = Some(7.0);
        runs[1].observed.overtakings = 6;
        let result = of(&runs);
        assert_eq!(result.requests_per_success(), Some(5.0), "by grants, not by runs");
        assert_eq!(result.overtakings_per_1000(), Some(150.0));
        assert_eq!(result.worst(|run| run.observed.handover_p99_ms), Some(7.0));
        assert_eq!((result.violated_runs(), result.observed()), (1, "violation"));
        assert_eq!(result.observed_in().replace('\u{a0}', " "), "1 of 2 runs");
        assert_eq!(of(&runs[..1]).observed_in().replace('\u{a0}', " "), "1 run");
    }

    #[test]
    fn leases_that_differ_are_told() {
        let mut runs = ["R", "RS"].map(|mode| run("L16", mode, Expected::Ok));
        let told = |runs: &[Run]| {
            let placed = runs.iter().map(|run| Placed { source: 0, run });
            scenarios(placed)[0].different_leases()
        };
        assert_eq!(told(&runs), None);
        runs[1].lease_ms = 24_000;
        assert_eq!(told(&runs).unwrap().replace('\u{a0}', " "), "R 8 s, RS 24 s");
        // A record of an earlier version.
        runs[0].lease_ms = 0;
        assert_eq!(told(&runs), None);
    }

    #[test]
    fn scenarios_are_in_the_order_of_their_ids_and_modes_in_that_of_the_lab() {
        let runs = [("L16", "R"), ("L2", "S"), ("L16", "S"), ("L16", "R")]
            .map(|(scenario, mode)| run(scenario, mode, Expected::Ok));
        let found = scenarios(runs.iter().map(|run| Placed { source: 0, run }));
        assert_eq!(found.iter().map(|s| s.id).collect::<Vec<_>>(), ["L2", "L16"]);
        assert_eq!(found[1].results.iter().map(|r| r.mode).collect::<Vec<_>>(), ["S", "R"]);
        assert_eq!(found[1].results[1].runs.len(), 2);
    }
}
