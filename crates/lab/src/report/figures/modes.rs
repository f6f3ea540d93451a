//! The modes of a scenario side by side: how often exclusion fell, and how long no client held the
//! lock.

use std::time::Duration;

use maud::{Markup, html};

use super::super::words::{count, seconds, three};
use crate::judge::wilson;
use crate::svg::{Figure, Log, Place, n, short};

/// The row of a mode.
#[derive(Debug)]
pub(in crate::report) struct ModeRow {
    /// The mode's name.
    pub(in crate::report) name: String,
    /// The number of runs.
    pub(in crate::report) runs: u64,
    /// The number of runs in which at least two clients believed at the same time.
    pub(in crate::report) violated: u64,
    /// The longest vacancy of each run.
    pub(in crate::report) vacancies: Vec<Duration>,
}

const TOP: f64 = 26.0;
const ROW: f64 = 26.0;
const LEFT: f64 = 86.0;
const WIDTH: f64 = 330.0;
const RIGHT: f64 = LEFT + WIDTH + 130.0;

/// Draws the rows.
pub(in crate::report) fn modes(
    id: String,
    title: String,
    desc: String,
    rows: &[ModeRow],
) -> Figure {
    let scale = Log::decades(rows.iter().flat_map(|row| &row.vacancies).map(Duration::as_secs_f64));
    let bottom = TOP + ROW * rows.len() as f64;
    let body = html! {
        text.strong x=(n(LEFT)) y="14" { "Runs with a violation, and 95 % interval" }
        text.strong x=(n(RIGHT)) y="14" { "Longest time without a holder, each run" }
        @for index in 0..rows.len() {
            @let y = TOP + ROW * index as f64;
            @if index % 2 == 0 {
                rect.band x=(n(LEFT)) y=(n(y)) width=(n(WIDTH)) height=(n(ROW)) {}
                rect.band x=(n(RIGHT)) y=(n(y)) width=(n(WIDTH)) height=(n(ROW)) {}
            }
        }
        (background(scale, bottom))
        @for (index, row) in rows.iter().enumerate() {
            (draw(row, scale, TOP + ROW * index as f64 + ROW / 2.0))
        }
    };
    Figure { id, title, desc, width: RIGHT + WIDTH + 24.0, height: bottom + 26.0, body }
}

fn background(scale: Log, bottom: f64) -> Markup {
    let place = Place { left: RIGHT, top: TOP, width: WIDTH, height: bottom - TOP };
    html! {
        @for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            @let x = LEFT + share * WIDTH;
            line.grid x1=(n(x)) x2=(n(x)) y1=(n(TOP)) y2=(n(bottom)) {}
            text.minor.middle x=(n(x)) y=(n(bottom + 16.0)) { (three(share * 100.0)) " %" }
        }
        (scale.across(place, seconds))
    }
}

fn draw(row: &ModeRow, scale: Log, y: f64) -> Markup {
    let share = wilson(row.violated.min(row.runs), row.runs);
    let [low, seen, high] = [share.low, share.seen, share.high].map(|at| LEFT + at * WIDTH);
    let bad = row.violated > 0;
    let (range, dot) = if bad { ("range-bad", "dot-bad") } else { ("range", "dot") };
    html! {
        text.end x=(n(LEFT - 10.0)) y=(n(y + 4.0)) { (short(&row.name, 11)) }
        line.(range) x1=(n(low)) x2=(n(high)) y1=(n(y)) y2=(n(y)) {}
        @for end in [low, high] { line.(range) x1=(n(end)) x2=(n(end)) y1=(n(y - 4.0)) y2=(n(y + 4.0)) {} }
        @if bad { rect.(dot) x=(n(seen - 5.0)) y=(n(y - 5.0)) width="10" height="10" {} }
        @else { circle.(dot) cx=(n(seen)) cy=(n(y)) r="5" {} }
        text.minor x=(n(LEFT + WIDTH + 12.0)) y=(n(y + 4.0)) {
            (count(row.violated)) " of " (count(row.runs))
        }
        @for vacancy in &row.vacancies {
            circle.dot cx=(n(RIGHT + scale.at(vacancy.as_secs_f64()) * WIDTH)) cy=(n(y)) r="4" fill-opacity=".65" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::assert_well_formed;

    fn row(name: &str, runs: u64, violated: u64) -> ModeRow {
        let vacancies = (0..runs).map(Duration::from_millis).collect();
        ModeRow { name: name.to_owned(), runs, violated, vacancies }
    }

    #[test]
    fn violated_modes_have_another_shape_and_their_numbers() {
        let rows = [row("S", 3, 0), row("R&W", 4, 3), row("none", 0, 0)];
        let figure = modes("m".into(), "t".into(), "d".into(), &rows);
        assert_well_formed(&figure);
        let svg = figure.inline().into_string();
        assert_eq!(svg.matches("<rect class=\"dot-bad\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("r=\"5\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("r=\"4\"").count(), 7, "a dot for each run: {svg}");
        assert!(svg.contains("3 of 4") && svg.contains("R&amp;W"), "{svg}");
    }

    #[test]
    fn nothing_is_a_picture_as_well() {
        assert_well_formed(&modes("m".into(), "t".into(), "d".into(), &[]));
    }
}
