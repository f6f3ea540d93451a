use maud::{Markup, html};

use super::super::libraries::{LIBRARIES_LEGEND, against_promise, parts, result, seen};
use super::super::results::{Scenario, modes};
use super::anchor;
use crate::svg::clean;

/// The overview where locks of several libraries were taken: a row for each library in each mode, a column
/// for each scenario.
pub(super) fn libraries(scenarios: &[Scenario<'_>]) -> Markup {
    html! {
        p.minor { (LIBRARIES_LEGEND) }
        div.scroll tabindex="0" role="region" aria-label="Libraries and scenarios" {
            table.matrix {
                caption { "Where exclusion fell. The colour is the outcome. ✗: against the promise." }
                thead {
                    tr {
                        th scope="col" { "Locks" }
                        @for scenario in scenarios {
                            th scope="col" title=(clean(scenario.title)) {
                                a href={ "#" (anchor(scenario)) } { (clean(scenario.id)) }
                            }
                        }
                    }
                }
                tbody { @for mode in modes(scenarios) { (row(scenarios, mode)) } }
            }
        }
    }
}

fn row(scenarios: &[Scenario<'_>], of: &str) -> Markup {
    let (mode, library) = parts(of);
    html! {
        tr {
            th scope="row" { (clean(library)) " " span.title { (clean(mode)) } }
            @for scenario in scenarios {
                td {
                    @if let Some(result) = result(scenario, of) {
                        @let (outcome, _) = result.outcome().words();
                        @let against = against_promise(result);
                        div.cell.(outcome).unexpected[against] {
                            @if against { span.sign { "✗" } " " }
                            (seen(result))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::results::{Placed, scenarios};
    use super::*;
    use crate::record::Expected;
    use crate::record::sample::{library, run};

    #[test]
    fn a_violation_against_a_promise_stands_out() {
        let mut runs = ["L02", "L10"].map(|id| run(id, "S:<nx>", Expected::Any));
        for (run, promised) in runs.iter_mut().zip([true, false]) {
            run.library = Some(library(Some(promised)));
            (run.observed.grants, run.observed.violations) = (2, 1);
        }
        let found = scenarios(runs.iter().map(|run| Placed { source: 0, run }));
        let html = libraries(&found).into_string();
        assert_eq!(html.matches("cell violated unexpected").count(), 1, "{html}");
        assert_eq!(html.matches("cell violated").count(), 2, "{html}");
        assert!(!html.contains("<nx>"), "{html}");
    }
}
