//! Libraries against scenarios: where exclusion fell, how long nobody held the lock, who was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::results::{ModeResult, Placed, Scenario, modes, scenarios};
use super::words::{count, time};
use crate::record::{Run, Skipped};

/// What the cells of the matrix say.
pub const LIBRARIES_LEGEND: &str = "\
held: one holder at a time. FELL in k of n: two holders at a time, or a stale write accepted, in k of n
runs. Against its promise: by the library's own pages (of quorumlock: by theory) it cannot happen. The
time is the longest in which nobody held a lock that somebody waited for. Told: a holder was notified of
its loss.";

/// Whether there are locks of other libraries among the runs.
pub(super) fn compared(scenarios: &[Scenario<'_>]) -> bool {
    let results = scenarios.iter().flat_map(|scenario| &scenario.results);
    results.flat_map(ModeResult::each).any(|run| run.library.is_some())
}

/// The matrix as text: a row for each library in each mode, a column for each scenario. The first row is
/// the heading.
#[must_use]
pub fn libraries_table(runs: &[Run]) -> Vec<Vec<String>> {
    rows(&scenarios(runs.iter().map(|run| Placed { source: 0, run })))
}

/// As [`libraries_table`].
pub(super) fn rows(scenarios: &[Scenario<'_>]) -> Vec<Vec<String>> {
    let ids = scenarios.iter().map(|scenario| scenario.id.to_owned());
    let heading = ["locks".to_owned(), "mode".to_owned()].into_iter().chain(ids).collect();
    let rows = modes(scenarios).into_iter().map(|of| {
        let (mode, library) = parts(of);
        let cells = scenarios.iter().map(|scenario| {
            result(scenario, of).map_or_else(|| "-".to_owned(), |result| seen(result))
        });
        [library.to_owned(), mode.to_owned()].into_iter().chain(cells).collect()
    });
    std::iter::once(heading).chain(rows).collect()
}

/// The mode proper, and whose locks were taken.
pub(super) fn parts(mode: &str) -> (&str, &str) {
    mode.split_once(':').unwrap_or((mode, "quorumlock"))
}

/// The result of a scenario in a mode, if it was run.
pub(super) fn result<'s>(scenario: &'s Scenario<'_>, mode: &str) -> Option<&'s ModeResult<'s>> {
    scenario.results.iter().find(|result| result.mode == mode)
}

/// What was seen, in a few words.
pub(super) fn seen(result: &ModeResult<'_>) -> String {
    let fell = fell(result);
    let mut words = match fell {
        0 if result.sum(|run| run.observed.grants) == 0 => "nothing granted".to_owned(),
        0 => "held".to_owned(),
        _ => format!("FELL in {} of {}", count(fell), result.runs.len()),
    };
    if against_promise(result) {
        words += ", against its promise";
    }
    let vacancy = result.vacancies().into_iter().max().unwrap_or(Duration::ZERO);
    words += &format!("; {}", time(vacancy));
    if result.sum(|run| run.observed.lost) > 0 {
        words += "; told";
    }
    words
}

/// In how many runs exclusion fell, or the resource accepted a stale write.
pub(super) fn fell(result: &ModeResult<'_>) -> u64 {
    result.sum(|run| u64::from(run.observed.violations + run.observed.stale_effects > 0))
}

/// Whether exclusion fell where the library's own pages say that it holds. For quorumlock theory says so.
pub(super) fn against_promise(result: &ModeResult<'_>) -> bool {
    match result.each().find_map(|run| run.library.as_ref()) {
        Some(library) => library.exclusion_promised == Some(true) && fell(result) > 0,
        None => result.as_expected() == Some(false),
    }
}

/// Why runs were not carried out, and of which scenarios.
pub(super) fn reasons(skipped: &[Skipped]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut reasons = BTreeMap::<&str, BTreeSet<&str>>::new();
    for Skipped { scenario, why, .. } in skipped {
        reasons.entry(why).or_default().insert(scenario);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Expected;
    use crate::record::sample::{library, run};

    #[test]
    fn a_cell_says_what_fell_against_a_promise_and_who_was_told() {
        let mut runs = vec![
            run("L02", "S", Expected::Ok),
            run("L02", "S:nx", Expected::Any),
            run("L10", "S:nx", Expected::Any),
            run("L10", "S:nx", Expected::Any),
        ];
        for run in &mut runs {
            run.observed.grants = 2;
        }
        for (run, promised) in runs[1..].iter_mut().zip([true, false, false]) {
            run.library = Some(library(Some(promised)));
        }
        runs[0].observed.lost = 1;
        runs[1].observed.violations = 1;
        (runs[3].observed.violations, runs[3].observed.vacancy_ms) = (2, 1_500.0);
        let table = libraries_table(&runs);
        let plain = |row: &Vec<String>| row.join("|").replace('\u{a0}', " ");
        assert_eq!(
            table.iter().map(plain).collect::<Vec<_>>(),
            [
                "locks|mode|L02|L10",
                "quorumlock|S|held; 0 ms; told|-",
                "nx|S|FELL in 1 of 1, against its promise; 0 ms|FELL in 1 of 2; 1.5 s",
            ]
        );
    }

    #[test]
    fn reasons_are_told_once() {
        let skipped = |scenario: &str, why: &str| Skipped {
            scenario: scenario.to_owned(),
            mode: "S:nx".to_owned(),
            why: why.to_owned(),
        };
        let skipped = ["L10", "L02", "L10"].map(|id| skipped(id, "it renews no lease"));
        let ids = BTreeSet::from(["L02", "L10"]);
        assert_eq!(reasons(&skipped), BTreeMap::from([("it renews no lease", ids)]));
    }
}
