//! Scenario by mode: what theory says, and what was seen.

use comfy_table::{Table, presets};
use quorumlock_lab::record::{Expected, Run};

/// One word for a table.
pub(super) fn word(expected: Expected) -> &'static str {
    match expected {
        Expected::Ok => "ok",
        Expected::Violation => "violation",
        Expected::Fenced => "fenced",
        Expected::Refused => "refused",
        Expected::Any => "any",
    }
}

/// All repetitions of one scenario in one mode.
pub(super) struct Cell<'a>(Vec<&'a Run>);

impl Cell<'_> {
    /// A violation need not show in every repetition, and in one at least; all else holds in each.
    pub(super) fn as_expected(&self) -> bool {
        let Self(runs) = self;
        match runs.first().map(|run| run.expected) {
            Some(Expected::Violation) => runs.iter().any(|run| run.as_expected),
            _ => runs.iter().all(|run| run.as_expected),
        }
    }

    fn text(&self) -> String {
        let Self(runs) = self;
        let Some(first) = runs.first() else { return "-".to_owned() };
        let sum = |of: fn(&Run) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        let (v, e) = (sum(|run| run.observed.violations), sum(|run| run.observed.stale_effects));
        let st = sum(|run| run.observed.refused_effects);
        let mark = if self.as_expected() { "" } else { "  !" };
        let vacancy = runs.iter().map(|run| run.observed.vacancy_ms).fold(0.0, f64::max);
        let expected = word(first.expected);
        format!("{expected}{mark}\nV {v} E {e} St {st}\nU {vacancy:.0} ms")
    }
}

/// The runs of each scenario and mode, in the order of their first run.
pub(super) fn cells(runs: &[Run]) -> Vec<Cell<'_>> {
    let mut cells = Vec::<Cell<'_>>::new();
    for run in runs {
        let same = |other: &&Run| other.scenario == run.scenario && other.mode == run.mode;
        match cells.iter_mut().find(|cell| cell.0.first().is_some_and(same)) {
            Some(cell) => cell.0.push(run),
            None => cells.push(Cell(vec![run])),
        }
    }
    cells
}

/// For people.
pub(super) fn of(runs: &[Run]) -> String {
    let mut modes = Vec::<&str>::new();
    let mut scenarios = Vec::<(&str, &str)>::new();
    for run in runs {
        if !modes.contains(&run.mode.as_str()) {
            modes.push(&run.mode);
        }
        if !scenarios.iter().any(|(id, _)| *id == run.scenario) {
            scenarios.push((&run.scenario, &run.title));
        }
    }
    let cells = cells(runs);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scenario"].into_iter().chain(modes.iter().copied()));
    for (id, title) in scenarios {
        let mut row = vec![format!("{id}\n{}", wrapped(title))];
        row.extend(modes.iter().map(|mode| {
            let here = |run: &&Run| run.scenario == id && run.mode == *mode;
            let cell = cells.iter().find(|cell| cell.0.first().is_some_and(here));
            cell.map_or_else(|| "-".to_owned(), Cell::text)
        }));
        table.add_row(row);
    }
    table.to_string()
}

/// In lines of at most this width.
const WIDTH: usize = 28;

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.len() + word.len() < WIDTH => {
                line.extend(if line.is_empty() { ["", word] } else { [" ", word] });
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_are_wrapped_between_words() {
        let text = wrapped("The master dies before it has replicated, and more");
        assert_eq!(text, "The master dies before it\nhas replicated, and more");
    }
}
