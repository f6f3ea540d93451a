use maud::{Markup, html};

use super::super::results::{ModeResult, Outcome, Scenario, expectation, modes};
use super::super::words::count;
use super::anchor;
use crate::svg::clean;

/// The overview: a row for each scenario, a column for each mode.
pub(super) fn matrix(scenarios: &[Scenario<'_>]) -> Markup {
    let modes = modes(scenarios);
    html! {
        (legend(scenarios))
        div.scroll tabindex="0" role="region" aria-label="Scenarios and modes" {
            table.matrix {
                caption { "Where exclusion fell. The colour is the outcome. ✓: as theory says; ✗: not. +: with this takeover delay." }
                thead {
                    tr {
                        th scope="col" { "Scenario" }
                        @for mode in &modes { th scope="col" { (clean(mode)) } }
                    }
                }
                tbody {
                    @for scenario in scenarios {
                        tr {
                            th scope="row" {
                                a href={ "#" (anchor(scenario)) } { (clean(scenario.id)) }
                                " " span.title { (clean(scenario.title)) }
                            }
                            @for mode in &modes { td { (cells(scenario, mode)) } }
                        }
                    }
                }
            }
        }
    }
}

fn cells(scenario: &Scenario<'_>, mode: &str) -> Markup {
    html! {
        @for result in scenario.results.iter().filter(|result| result.mode == mode) { (cell(result)) }
    }
}

fn cell(result: &ModeResult<'_>) -> Markup {
    let (expected, sign) = match result.as_expected() {
        Some(true) => ("", "✓"),
        Some(false) => ("unexpected", "✗"),
        None => ("", "…"),
    };
    let (outcome, word) = result.outcome().words();
    let numbers = [
        ("V", result.sum(|run| run.observed.violations)),
        ("E", result.sum(|run| run.observed.stale_effects)),
        ("St", result.sum(|run| run.observed.refused_effects)),
    ];
    let seen = numbers.into_iter().filter(|(_, number)| *number > 0);
    html! {
        div.cell.(outcome).(expected) {
            span.sign { (sign) } " " (word)
            @if let Some(delay) = result.delay() { " " span.pair { "+" (delay) } }
            @for (letter, number) in seen {
                " " span.pair { (letter) "\u{a0}" (count(number)) }
            }
            @if result.violated_runs() > 0 { div.minor { "in " (result.observed_in()) } }
            @if result.as_expected() != Some(true) {
                div.minor { "expected: " (expectation(result.expected)) }
            }
            @if let Some(step) = result.stuck() { div.minor { "stuck: " (clean(step)) } }
        }
    }
}

/// The colours that occur, and what they mean.
fn legend(scenarios: &[Scenario<'_>]) -> Markup {
    let seen = |outcome: &Outcome| {
        let results = scenarios.iter().flat_map(|scenario| &scenario.results);
        results.into_iter().any(|result| result.outcome() == *outcome)
    };
    html! {
        ul.legend {
            @for outcome in Outcome::ALL.into_iter().filter(seen) {
                @let (class, word) = outcome.words();
                li.cell.(class) { (word) ": " (meaning(outcome)) }
            }
        }
    }
}

fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "one holder at a time",
        Outcome::Fenced => "the resource refused stale effects",
        Outcome::Violated => "two holders, or a stale effect accepted",
        Outcome::Disordered => "one holder at a time, with a smaller token",
        Outcome::Refused => "the library said no",
        Outcome::Nothing => "nothing is known",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::results::{Placed, scenarios};
    use super::*;
    use crate::record::Expected;
    use crate::record::sample::run;

    #[test]
    fn every_mode_has_its_column_and_what_was_not_run_stays_empty() {
        let mut runs = [
            run("L16", "QQ", Expected::Ok),
            run("L02", "S", Expected::Ok),
            run("L16", "<b>", Expected::Violation),
        ];
        runs[2].observed.violations = 1_234;
        runs[0].as_expected = false;
        let found = scenarios(runs.iter().map(|run| Placed { source: 0, run }));
        assert_eq!(modes(&found), ["S", "QQ", "<b>"]);
        let html = matrix(&found).into_string();
        assert_eq!(html.matches("<td></td>").count(), 3, "{html}");
        assert!(html.contains("V\u{a0}1\u{202f}234") && !html.contains("<b>"), "{html}");
        assert!(html.contains("expected: no violation"), "{html}");
    }
    #[test]
    fn a_run_that_got_stuck_says_where() {
        let mut runs = [run("L02", "S", Expected::Ok)];
        (runs[0].as_expected, runs[0].observed.grants) = (false, 9);
        runs[0].stuck = Some("step 2 (kill node <0>)".to_owned());
        let html = |runs: &[_]| {
            matrix(&scenarios(runs.iter().map(|run| Placed { source: 0, run }))).into_string()
        };
        let stuck = html(&runs);
        assert!(stuck.contains("no violation") && stuck.contains("✗"), "{stuck}");
        assert!(stuck.contains("stuck: step 2 (kill node &lt;0&gt;)"), "{stuck}");
        runs[0].stuck = None;
        assert!(!html(&runs).contains("stuck"));
    }
}
