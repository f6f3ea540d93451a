//! The results as a table of scenarios and modes: expected and observed.

use comfy_table::{Table, presets};
use quorumlock_lab::judge::overtakings_per_1000;
use quorumlock_lab::record::{Run, agrees};

/// All repetitions of one scenario in one mode, with one takeover delay.
pub(crate) struct Cell<'a>(Vec<&'a Run>);

impl Cell<'_> {
    /// Whether the repetitions agree with theory, as far as they were not interrupted.
    pub(crate) fn as_expected(&self) -> bool {
        agrees(&self.0).unwrap_or(true)
    }

    fn text(&self) -> String {
        let Self(runs) = self;
        let Some(first) = runs.first() else { return "-".to_owned() };
        let sum = |of: fn(&Run) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        let (v, e) = (sum(|run| run.observed.violations), sum(|run| run.observed.stale_effects));
        let st = sum(|run| run.observed.refused_effects);
        let mark = if self.as_expected() { "" } else { "  !" };
        let worst = |of: fn(&Run) -> f64| runs.iter().map(|run| of(run)).fold(0.0, f64::max);
        let vacancy = worst(|run| run.observed.vacancy_ms);
        let expected = first.expected;
        let fell = sum(|run| u64::from(run.observed.violations + run.observed.stale_effects > 0));
        let seen = match (fell, runs.len()) {
            (0, _) | (_, 1) => String::new(),
            (fell, all) => format!("  in {fell} of {all} runs"),
        };
        let longest = worst(|run| run.observed.failing_ms);
        let total = worst(|run| run.observed.failing_total_ms);
        let failing = match longest > 0.0 {
            true => format!("\nF {longest:.0} ms, {total:.0} in all"),
            false => String::new(),
        };
        let overtakings = sum(|run| run.observed.overtakings);
        let overtaken = overtakings_per_1000(overtakings, sum(|run| run.observed.grants))
            .filter(|_| overtakings > 0)
            .map(|rate| format!("\n{overtakings} overtakings, {rate:.1} of 1000"));
        let overtaken = overtaken.unwrap_or_default();
        format!(
            "{expected}{mark}\nV {v} E {e} St {st}{seen}\nU {vacancy:.0} ms{failing}{overtaken}"
        )
    }
}

/// The runs of each scenario, mode and takeover delay, in the order of their first run.
pub(crate) fn cells(runs: &[Run]) -> Vec<Cell<'_>> {
    let mut cells = Vec::<Cell<'_>>::new();
    for run in runs {
        let same = |other: &&Run| row(other) == row(run) && other.mode == run.mode;
        match cells.iter_mut().find(|cell| cell.0.first().is_some_and(same)) {
            Some(cell) => cell.0.push(run),
            None => cells.push(Cell(vec![run])),
        }
    }
    cells
}

/// The table as text for people.
pub(crate) fn of(runs: &[Run]) -> String {
    let mut modes = Vec::<&str>::new();
    let mut rows = Vec::<(Row<'_>, &str)>::new();
    for run in runs {
        if !modes.contains(&run.mode.as_str()) {
            modes.push(&run.mode);
        }
        if !rows.iter().any(|(known, _)| *known == row(run)) {
            rows.push((row(run), &run.title));
        }
    }
    let cells = cells(runs);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scenario"].into_iter().chain(modes.iter().copied()));
    for (of, title) in rows {
        let (id, delay_ms) = of;
        let delay = match delay_ms {
            0 => String::new(),
            ms => format!("\ntakeover delay {ms} ms"),
        };
        let mut words = vec![format!("{id}\n{}{delay}", wrapped(title))];
        words.extend(modes.iter().map(|mode| {
            let here = |run: &&Run| row(run) == of && run.mode == *mode;
            let cell = cells.iter().find(|cell| cell.0.first().is_some_and(here));
            cell.map_or_else(|| "-".to_owned(), Cell::text)
        }));
        table.add_row(words);
    }
    table.to_string()
}

/// The scenario, and the takeover delay.
type Row<'a> = (&'a str, u64);

fn row(run: &Run) -> Row<'_> {
    (&run.scenario, run.takeover_delay_ms)
}

/// The width of a cell in characters.
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
