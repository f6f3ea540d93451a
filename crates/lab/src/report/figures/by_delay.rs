//! Violations and stale effects by takeover delay: a panel for each, a line for each mode.

use std::time::Duration;

use maud::{Markup, html};

use super::super::words::{count, time};
use crate::svg::{Entry, Figure, Place, counts, curve, key, linear, n, short};

/// The line of a mode.
#[derive(Debug)]
pub(in crate::report) struct DelayLine {
    /// The mode's name.
    pub(in crate::report) mode: String,
    /// Its points, in the order of the delays.
    pub(in crate::report) points: Vec<DelayPoint>,
}

/// What the runs with one takeover delay observed, as the mean of a run.
#[derive(Debug)]
pub(in crate::report) struct DelayPoint {
    /// The takeover delay.
    pub(in crate::report) delay: Duration,
    /// Pairs of holds that were believed in at the same time.
    pub(in crate::report) violations: f64,
    /// Stale effects that the resource accepted.
    pub(in crate::report) stale_effects: f64,
}

const LEFT: f64 = 56.0;
const TOP: f64 = 26.0;
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 170.0;
const RIGHT: f64 = LEFT + WIDTH + 66.0;
const BOTTOM: f64 = TOP + HEIGHT;

/// Draws the lines.
pub(in crate::report) fn by_delay(
    id: String,
    title: String,
    desc: String,
    lines: &[DelayLine],
) -> Figure {
    let samples = (0..lines.len()).map(|index| curve(index, "M-9 0h24")).collect::<Vec<_>>();
    let names = lines.iter().map(|line| short(&line.mode, 24)).collect::<Vec<_>>();
    let entries =
        samples.into_iter().zip(names.iter().map(|name| &**name)).collect::<Vec<Entry<'_>>>();
    let (key, key_height) = key(&entries, LEFT, BOTTOM + 46.0, RIGHT + WIDTH - LEFT);
    let body = html! {
        (panel(LEFT, "V: pairs of overlapping holds", lines, |point| point.violations))
        (panel(RIGHT, "E: stale effects accepted", lines, |point| point.stale_effects))
        (key)
    };
    let height = BOTTOM + 46.0 + key_height;
    Figure { id, title, desc, width: RIGHT + WIDTH + 24.0, height, body }
}

fn panel(left: f64, name: &str, lines: &[DelayLine], of: fn(&DelayPoint) -> f64) -> Markup {
    let points = || lines.iter().flat_map(|line| &line.points);
    let longest = points().map(|point| point.delay).max().unwrap_or_default();
    let most = points().map(of).fold(1.0, f64::max).ceil();
    let place = Place { left, top: TOP, width: WIDTH, height: HEIGHT };
    let x = |delay: Duration| {
        left + delay.as_secs_f64() / longest.as_secs_f64().max(f64::MIN_POSITIVE) * WIDTH
    };
    let y = |value: f64| TOP + (1.0 - value / most) * HEIGHT;
    html! {
        text.strong x=(n(left)) y="14" { (name) }
        (grid(place, longest, most as u32))
        @for (index, line) in lines.iter().enumerate() {
            @let ends = line.points.iter().map(|point| (x(point.delay), y(of(point)))).collect::<Vec<_>>();
            (curve(index, &path(&ends)))
            @for (x, y) in ends { circle.dot cx=(n(x)) cy=(n(y)) r="2.5" {} }
        }
    }
}

fn grid(place: Place, longest: Duration, most: u32) -> Markup {
    let Place { left, top, width, height } = place;
    html! {
        rect.band x=(n(left)) y=(n(top)) width=(n(width)) height=(n(height)) {}
        @for mark in linear(Duration::ZERO, longest) {
            @let x = left + mark.as_secs_f64() / longest.as_secs_f64().max(f64::MIN_POSITIVE) * width;
            line.grid x1=(n(x)) x2=(n(x)) y1=(n(top)) y2=(n(top + height)) {}
            text.minor.middle x=(n(x)) y=(n(top + height + 16.0)) { (time(mark)) }
        }
        @for mark in counts(most) {
            @let y = top + (1.0 - mark / f64::from(most)) * height;
            line.grid x1=(n(left)) x2=(n(left + width)) y1=(n(y)) y2=(n(y)) {}
            text.minor.end x=(n(left - 8.0)) y=(n(y + 4.0)) { (count(mark as u64)) }
        }
        path.axis d={ "M" (n(left)) " " (n(top)) "V" (n(top + height)) "H" (n(left + width)) } {}
        text.strong.middle x=(n(left + width / 2.0)) y=(n(top + height + 36.0)) { "takeover delay" }
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let step = |(index, (x, y)): (usize, &(f64, f64))| {
        html! { @if index == 0 { "M" } @else { "L" } (n(*x)) " " (n(*y)) }.into_string()
    };
    points.iter().enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::assert_well_formed;

    fn line(mode: &str, values: &[(u64, f64, f64)]) -> DelayLine {
        let point = |&(ms, violations, stale_effects): &(u64, f64, f64)| DelayPoint {
            delay: Duration::from_millis(ms),
            violations,
            stale_effects,
        };
        DelayLine { mode: mode.to_owned(), points: values.iter().map(point).collect() }
    }

    fn drawn(lines: &[DelayLine]) -> String {
        let figure = by_delay("d".into(), "t".into(), "d".into(), lines);
        assert_well_formed(&figure);
        figure.inline().into_string()
    }

    #[test]
    fn each_mode_has_a_line_in_both_panels_that_falls_to_the_axis() {
        let svg = drawn(&[
            line("S", &[(0, 40.0, 0.0), (1_000, 20.0, 0.0), (2_000, 0.0, 0.0)]),
            line("Q<5>", &[(0, 10.0, 0.5), (2_000, 0.0, 0.0)]),
        ]);
        assert_eq!(svg.matches("class=\"curve").count(), 2 * 2 + 2, "two samples: {svg}");
        assert_eq!(svg.matches("<circle").count(), 2 * 5);
        assert!(svg.contains("d=\"M56 26L206 111L356 196\""), "the largest V is at the top: {svg}");
        assert!(svg.contains("Q&lt;5&gt;") && svg.contains("takeover delay"), "{svg}");
    }

    #[test]
    fn nothing_and_one_delay_are_pictures_as_well() {
        drawn(&[]);
        drawn(&[line("S", &[(0, 0.0, 0.0)])]);
    }
}
