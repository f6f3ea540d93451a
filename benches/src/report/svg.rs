//! Figures: bars with ranges for workloads, curves for growth. Axes are logarithmic: ratios are what
//! can be read off.

use std::collections::BTreeMap;

use maud::{Markup, html};
use quorumlock_lab::svg::{Figure, Log, Place, curve, key, n};

use super::table::{distinct, number};
use crate::plan::Workload;
use crate::results::{RAW, Range, Results, Row};

/// Bars begin here; the names of their subjects end before.
const LEFT: f64 = 120.0;
const WIDTH: f64 = 500.0;
/// The room for figures beside bars.
const RIGHT: f64 = 160.0;
const BAR: f64 = 18.0;

/// A group of bars for each main figure, with the ratios to the raw client.
#[must_use]
pub(super) fn bars(results: &Results, workload: &Workload) -> Figure {
    let rows = results.rows(workload.id);
    let rows: Vec<_> =
        rows.filter(|row| workload.main.contains(&row.key.metric.as_str())).collect();
    let (mut groups, mut top) = (Vec::new(), 0.0);
    for name in distinct(rows.iter().map(|row| title(row))) {
        let of_it = rows.iter().filter(|row| title(row) == name);
        let bars: Vec<_> = of_it.filter_map(|row| Some((*row, row.range()?))).collect();
        let height = BAR * bars.len() as f64;
        let place = Place { left: LEFT, top: top + 30.0, width: WIDTH, height };
        groups.push(group(results, &name, &bars, place));
        top += height + 62.0;
    }
    Figure {
        id: workload.id.to_owned(),
        title: format!("{}: {}", workload.id, workload.title),
        desc: "Bars: medians. Thin lines: from the least to the largest. x: to the raw client."
            .to_owned(),
        width: LEFT + WIDTH + RIGHT,
        height: top,
        body: html! { @for group in &groups { (group) } },
    }
}

fn title(row: &Row) -> String {
    let key = &row.key;
    let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
    let tasks = number(key.tasks as f64);
    let place = format!("{} x {}, {}, {tasks} at once", key.nodes, key.server, key.case);
    format!("{}{unit}; {place}", key.metric)
}

fn group(results: &Results, name: &str, bars: &[(&Row, Range)], place: Place) -> Markup {
    // Bars begin below the least value: otherwise that bar would have no length.
    let scale = Log::exact(bars.iter().flat_map(|(_, range)| [range.min / 2.0, range.max]));
    html! {
        text.strong x="10" y=(n(place.top - 12.0)) { (name) }
        rect.band x=(n(LEFT)) y=(n(place.top)) width=(n(WIDTH)) height=(n(place.height)) {}
        (scale.across(place, number))
        @for (index, (row, range)) in bars.iter().enumerate() {
            @let ratio = results.other(row, RAW).and_then(|raw| row.ratio(raw));
            (bar(&row.key.subject, *range, ratio, scale, place.top + BAR * index as f64))
        }
    }
}

fn bar(name: &str, range: Range, ratio: Option<Range>, scale: Log, top: f64) -> Markup {
    let class = match name {
        RAW => "bar-raw",
        "default" | "like for like" => "bar",
        _ => "bar-other",
    };
    let [from, median, to] =
        [range.min, range.median, range.max].map(|value| LEFT + scale.at(value) * WIDTH);
    let middle = top + BAR / 2.0;
    let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({}x)", number(ratio.median)));
    html! {
        text.end x=(n(LEFT - 8.0)) y=(n(middle + 4.0)) { (name) }
        rect.(class) x=(n(LEFT)) y=(n(top + 3.0)) width=(n((median - LEFT).max(1.0))) height=(n(BAR - 6.0)) {}
        path.whisker d={ "M" (n(from)) " " (n(middle)) "H" (n(to)) } {}
        text x=(n(to.max(LEFT + 1.0) + 6.0)) y=(n(middle + 4.0)) { (number(range.median)) (ratio) }
    }
}

/// A figure for each main figure: against servers where one task asks, else against tasks, waiters
/// or locks.
#[must_use]
pub(super) fn growth(results: &Results, workload: &Workload) -> Vec<Figure> {
    type Points<'a> = Vec<(f64, &'a Row)>;
    let mut plots = BTreeMap::<_, (String, String, Points<'_>)>::new();
    for row in results.rows(workload.id) {
        let key = &row.key;
        if !workload.main.contains(&key.metric.as_str()) {
            continue;
        }
        let (over, x) = match (key.tasks, key.case.as_str()) {
            (1, _) => ("servers".to_owned(), key.nodes),
            (tasks, "held locks") => ("held locks".to_owned(), tasks),
            (tasks, "one name") => ("waiters".to_owned(), tasks),
            (tasks, _) => (format!("tasks, servers {}", key.nodes), tasks),
        };
        let words = format!("growth {} {over}", key.metric);
        let words = words.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let title = format!("{} ({}) against {over}, {}", key.metric, key.unit, key.server);
        let plot = plots.entry(words.join("-"));
        plot.or_insert((title, over, Vec::new())).2.push((x as f64, row));
    }
    let draw = |(id, (title, over, rows)): (_, (String, String, Points<'_>))| {
        curves(id, title, &over, &rows)
    };
    plots.into_iter().map(draw).collect()
}

/// One curve per subject.
fn curves(id: String, title: String, x_name: &str, rows: &[(f64, &Row)]) -> Figure {
    let place = Place { left: 70.0, top: 12.0, width: 560.0, height: 290.0 };
    let (middle, bottom) = (place.left + place.width / 2.0, place.top + place.height);
    let points: Vec<_> = rows
        .iter()
        .filter_map(|(x, row)| Some((row.key.subject.as_str(), *x, row.range()?.median)))
        .collect();
    // Longer: labels of the outermost points have room.
    let across = Log::exact(points.iter().map(|(_, x, _)| *x)).longer(0.06);
    let up = Log::exact(points.iter().map(|(.., median)| *median)).longer(0.08);
    let x_at = |x| place.left + across.at(x) * place.width;
    let y_at = |y| place.top + (1.0 - up.at(y)) * place.height;
    let names = distinct(points.iter().map(|(name, ..)| *name));
    let samples = names.iter().enumerate().map(|(index, name)| (curve(index, "M-9 0h18"), *name));
    let (key, key_height) =
        key(&samples.collect::<Vec<_>>(), place.left, bottom + 46.0, place.width);
    let body = html! {
        rect.band x=(n(place.left)) y=(n(place.top)) width=(n(place.width)) height=(n(place.height)) {}
        (up.up(place, number))
        @for x in distinct(points.iter().map(|(_, x, _)| *x)) {
            line.grid x1=(n(x_at(x))) x2=(n(x_at(x))) y1=(n(place.top)) y2=(n(bottom)) {}
            text.minor.middle x=(n(x_at(x))) y=(n(bottom + 16.0)) { (number(x)) }
        }
        @for (index, name) in names.iter().enumerate() {
            @let of_it = points.iter().filter(|(subject, ..)| subject == name);
            (curve(index, &path(of_it.map(|(_, x, y)| (x_at(*x), y_at(*y))))))
        }
        @for (_, x, y) in &points {
            @let above = points.iter().all(|(_, other, higher)| other != x || higher <= y);
            @let label = y_at(*y) + if above { -6.0 } else { 16.0 };
            text.middle x=(n(x_at(*x))) y=(n(label)) { (number(*y)) }
        }
        text.strong.middle x=(n(middle)) y=(n(bottom + 36.0)) { (x_name) }
        (key)
    };
    let desc = "One curve for each subject: medians.".to_owned();
    let (width, height) = (place.left + place.width + 40.0, bottom + 46.0 + key_height);
    Figure { id, title, desc, width, height, body }
}

/// A straight line from each point to the next.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let steps = points.enumerate().map(|(index, (x, y))| {
        let letter = if index == 0 { "M" } else { "L" };
        html! { (letter) (n(x)) " " (n(y)) }.into_string()
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ALL;
    use crate::results::Key;

    fn results(workload: &Workload, values: &[(&str, usize, f64)]) -> Results {
        let mut results = Results::default();
        for (subject, tasks, value) in values {
            let key = Key {
                workload: workload.id.into(),
                nodes: 1,
                tasks: *tasks,
                case: "a < b".into(),
                subject: (*subject).into(),
                metric: workload.main[0].into(),
                ..Key::default()
            };
            results.enter(0, key.clone(), *value);
            results.enter(1, key, value * 2.0);
        }
        results
    }

    #[test]
    fn every_subject_has_its_bar_and_the_text_is_escaped() {
        let results = results(&ALL[0], &[("raw", 1, 10.0), ("default", 1, 5.0)]);
        let svg = bars(&results, &ALL[0]).standalone();
        assert_eq!(svg.matches("<rect class=\"bar").count(), 2, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("(0.50x)") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        assert!(!bars(&Results::default(), &ALL[0]).standalone().contains("NaN"));
        assert!(!curves("x".into(), "x".into(), "tasks", &[]).standalone().contains("NaN"));
    }

    #[test]
    fn a_curve_has_a_point_for_each_value() {
        let last = &ALL[11];
        let values = [("raw", 4, 10.0), ("raw", 16, 20.0), ("default", 4, 0.0)];
        let plots = growth(&results(last, &values), last);
        let [plot] = &plots[..] else { panic!("{plots:?}") };
        assert_eq!(plot.id, "growth-pair-p50-tasks-servers-1");
        let svg = plot.standalone();
        assert_eq!(svg.matches("class=\"curve").count(), 4, "two curves and two samples: {svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
