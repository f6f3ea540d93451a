//! The verdict: the sentence at the top of the page.

use super::results::Scenario;
use super::words::{count, counted, percent};
use crate::judge::{rule_of_three, wilson};
use crate::record::Expected;

/// All results together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The number of results that agree with theory.
    as_expected: u64,
    /// The number of results: scenarios times modes.
    results: u64,
    /// The number of results without a finished run. They are not in `results`.
    unfinished: u64,
    /// Violations where exclusion may fall.
    may: Fell,
    /// Violations where exclusion must hold.
    must: Fell,
    /// Stale effects that were accepted where none may be.
    stale: u64,
}

/// How often exclusion fell.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fell {
    violations: u64,
    holds: u64,
    violated_runs: u64,
    runs: u64,
}

impl Verdict {
    /// Counts the results.
    pub(super) fn of(scenarios: &[Scenario<'_>]) -> Self {
        let mut verdict = Self::default();
        for result in scenarios.iter().flat_map(|scenario| &scenario.results) {
            match result.as_expected() {
                Some(good) => {
                    verdict.results += 1;
                    verdict.as_expected += u64::from(good);
                }
                None => verdict.unfinished += 1,
            }
            let fell = match result.expected {
                Expected::Ok | Expected::Disordered | Expected::Refused => &mut verdict.must,
                Expected::Violation | Expected::Fenced | Expected::Any => &mut verdict.may,
            };
            fell.violations += result.sum(|run| run.observed.violations);
            fell.holds += result.sum(|run| run.observed.grants);
            fell.violated_runs += result.violated_runs();
            fell.runs += result.runs.len() as u64;
            if matches!(result.expected, Expected::Ok | Expected::Fenced | Expected::Disordered) {
                verdict.stale += result.sum(|run| run.observed.stale_effects);
            }
        }
        verdict
    }

    /// Whether all results agree with theory.
    pub(super) fn good(&self) -> bool {
        self.as_expected == self.results && self.must.violations == 0 && self.stale == 0
    }

    /// The verdict in one sentence.
    pub(super) fn sentence(&self) -> String {
        let results =
            format!("{} of {} as expected", self.as_expected, counted(self.results, "result"),);
        let mut parts = vec![results];
        if self.may.runs > 0 {
            let may = self.may.words("where it can fall", "");
            parts.push(format!("mutual exclusion {may}"));
        }
        if self.must.runs > 0 {
            let bound = rule_of_three(self.must.holds).filter(|_| self.must.violations == 0);
            let bound = bound.map(|bound| {
                format!(": upper 95\u{a0}% bound {} per hold, rule of three", percent(bound))
            });
            parts.push(self.must.words("where it must hold", &bound.unwrap_or_default()));
        }
        if self.stale > 0 {
            let stale = counted(self.stale, "stale effect");
            parts.push(format!("{stale} ACCEPTED where none may be"));
        }
        parts.join("; ") + "."
    }

    /// Remarks that qualify the sentence.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.must.runs > 0 {
            let share = wilson(self.must.violated_runs, self.must.runs);
            remarks.push(format!(
                "Holds of one run share its faults, so they are not independent; counted by runs, {} \
                 of {} had a violation where exclusion must hold (95\u{a0}% interval {} to {}).",
                self.must.violated_runs,
                counted(self.must.runs, "run"),
                percent(share.low),
                percent(share.high),
            ));
        }
        if self.unfinished > 0 {
            remarks.push(format!(
                "{} without a finished run: not counted.",
                counted(self.unfinished, "result")
            ));
        }
        remarks
    }
}

impl Fell {
    /// In how many of how many runs it fell. Overlaps of one run have one cause, so they are in brackets.
    fn words(&self, place: &str, bound: &str) -> String {
        let word = if self.violations == 0 { "violated" } else { "VIOLATED" };
        let overlaps = counted(self.violations, "overlap");
        let (fell, runs) = (count(self.violated_runs), counted(self.runs, "run"));
        let holds = counted(self.holds, "hold");
        format!("{word} in {fell} of {runs} {place} ({overlaps} in {holds}{bound})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::{Placed, scenarios};
    use super::*;
    use crate::record::Run;
    use crate::record::sample::run;

    fn of(runs: &[Run]) -> Verdict {
        Verdict::of(&scenarios(runs.iter().map(|run| Placed { source: 0, run })))
    }

    fn seen(mode: &str, expected: Expected, violations: u64, as_expected: bool) -> Run {
        let mut run = run("L16", mode, expected);
        run.observed.violations = violations;
        run.observed.grants = 1_000;
        run.as_expected = as_expected;
        run
    }

    fn plain(text: &str) -> String {
        text.replace(['\u{a0}', '\u{202f}'], " ")
    }

    #[test]
    fn what_must_hold_and_what_can_fall_are_told_apart() {
        let runs = [
            seen("R", Expected::Violation, 2, true),
            seen("QQ", Expected::Ok, 0, true),
            seen("QF", Expected::Fenced, 1, true),
        ];
        let verdict = of(&runs);
        assert!(verdict.good());
        assert_eq!(
            plain(&verdict.sentence()),
            "3 of 3 results as expected; mutual exclusion VIOLATED in 2 of 2 runs where it can fall \
             (3 overlaps in 2 000 holds); violated in 0 of 1 run where it must hold (0 overlaps in \
             1 000 holds: upper 95 % bound 0.3 % per hold, rule of three)."
        );
        let remark = plain(&verdict.remarks()[0]);
        assert!(remark.contains("0 of 1 run had") && remark.contains("0 % to 79.3 %"), "{remark}");
    }

    #[test]
    fn a_fallen_promise_has_no_bound_and_is_not_good() {
        let verdict = of(&[seen("QQ", Expected::Ok, 1, false)]);
        assert!(!verdict.good());
        let sentence = plain(&verdict.sentence());
        assert!(sentence.contains("0 of 1 result as expected"), "{sentence}");
        assert!(
            sentence.contains("VIOLATED in 1 of 1 run where it must hold (1 overlap"),
            "{sentence}"
        );
        assert!(!sentence.contains("bound"), "{sentence}");
    }

    #[test]
    fn stale_effects_where_none_may_be_are_told() {
        let mut run = seen("QF", Expected::Fenced, 1, false);
        run.observed.stale_effects = 2;
        let verdict = of(&[run]);
        assert!(!verdict.good());
        assert!(verdict.sentence().contains("2\u{a0}stale effects ACCEPTED"), "{verdict:?}");
    }

    #[test]
    fn unfinished_results_are_not_counted() {
        let run = Run { interrupted: true, ..seen("QQ", Expected::Ok, 0, true) };
        let verdict = of(&[run]);
        assert!(verdict.sentence().starts_with("0 of 0\u{a0}results"), "{verdict:?}");
        assert!(verdict.remarks().iter().any(|remark| remark.contains("without a finished run")));
    }

    #[test]
    fn no_holds_have_no_bound() {
        let mut run = seen("QQ", Expected::Ok, 0, true);
        run.observed.grants = 0;
        assert!(!of(&[run]).sentence().contains("bound"));
    }
}
