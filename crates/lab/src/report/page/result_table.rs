use super::super::results::{ModeResult, Scenario, expectation};
use super::super::table::{Cell, Table};
use super::super::words::{count, ms, none, percent, three};
use super::anchor;

/// A row for each scenario, mode and takeover delay.
pub(super) fn result_table<'a>(
    id: &str,
    caption: &str,
    scenarios: impl Iterator<Item = &'a Scenario<'a>>,
) -> Table {
    let rows = scenarios
        .flat_map(|scenario| scenario.results.iter().map(move |result| row(scenario, result)));
    Table {
        id: id.to_owned(),
        caption: caption.to_owned(),
        columns: vec![
            ("Scenario", "scenario"),
            ("Mode", "mode"),
            ("Takeover delay", "takeover_delay_ms"),
            ("Expected", "expected"),
            ("Observed", "observed"),
            ("As expected", "as_expected"),
            ("Runs", "runs"),
            ("Runs with V", "runs_with_v"),
            ("95 % low", "runs_with_v_low"),
            ("95 % high", "runs_with_v_high"),
            ("Holds", "holds"),
            ("V", "v"),
            ("V, total", "v_total_ms"),
            ("E", "e"),
            ("St", "st"),
            ("U, longest", "u_max_ms"),
            ("F, longest", "f_max_ms"),
            ("F in all, worst run", "f_total_worst_run_ms"),
            ("H p50, worst run", "h_p50_worst_run_ms"),
            ("H p99, worst run", "h_p99_worst_run_ms"),
            ("Overtakings", "overtakings"),
            ("Overtakings per 1000 grants", "overtakings_per_1000"),
            ("Requests per success", "requests_per_success"),
            ("D, longest", "d_max_ms"),
            ("Lost", "lost"),
            ("Tokens repeated", "tokens_repeated"),
            ("Tokens out of order", "tokens_out_of_order"),
        ],
        rows: rows.collect(),
    }
}

fn row(scenario: &Scenario<'_>, result: &ModeResult<'_>) -> Vec<Cell> {
    let total = |number: u64| Cell::number(count(number), number);
    let time = |value: Option<f64>| Cell::maybe(ms(value), value);
    let share = result.violated_share();
    let violated_ms = result.each().map(|run| run.observed.violated_ms).sum::<f64>();
    let (overtakings, requests) = (result.overtakings_per_1000(), result.requests_per_success());
    vec![
        Cell::text(scenario.id).to(&anchor(scenario)),
        Cell::text(result.mode),
        Cell::number(result.delay().unwrap_or_else(none), result.delay_ms),
        Cell::words(expectation(result.expected)),
        Cell::words(result.observed()),
        match result.as_expected() {
            Some(good) => Cell::verdict(good, if good { "yes" } else { "NO" }, good),
            None => Cell::text("cut short"),
        },
        total(result.runs.len() as u64),
        total(result.violated_runs()),
        Cell::number(percent(share.low), share.low),
        Cell::number(percent(share.high), share.high),
        total(result.sum(|run| run.observed.grants)),
        total(result.sum(|run| run.observed.violations)),
        time((violated_ms > 0.0).then_some(violated_ms)),
        total(result.sum(|run| run.observed.stale_effects)),
        total(result.sum(|run| run.observed.refused_effects)),
        time(result.worst(|run| Some(run.observed.vacancy_ms))),
        time(result.worst(|run| Some(run.observed.failing_ms))),
        time(result.worst(|run| Some(run.observed.failing_total_ms))),
        time(result.worst(|run| run.observed.handover_p50_ms)),
        time(result.worst(|run| run.observed.handover_p99_ms)),
        total(result.sum(|run| run.observed.overtakings)),
        Cell::maybe(overtakings.map_or_else(none, three), overtakings),
        Cell::maybe(requests.map_or_else(none, three), requests),
        time(result.worst(|run| run.observed.told_after_ms)),
        total(result.sum(|run| run.observed.lost)),
        total(result.sum(|run| run.observed.tokens_repeated)),
        total(result.sum(|run| run.observed.tokens_out_of_order)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::results::{Placed, scenarios};
    use super::*;
    use crate::record::Expected;
    use crate::record::sample::run;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let runs = [run("L16", "R", Expected::Violation), run("L16", "QQ", Expected::Ok)];
        let found = scenarios(runs.iter().map(|run| Placed { source: 0, run }));
        let table = result_table("results", "All", found.iter());
        assert_eq!(table.rows.len(), 2);
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
}
