//! Plots: bars with ranges for workloads, curves for growth. Both axes of a curve, and the one of
//! bars, are logarithmic: ratios are what can be read off.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::table::{distinct, number};
use crate::plan::Workload;
use crate::results::{RAW, Range, Results, Row};

const LEFT: f64 = 210.0;
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 18.0;
const COLOURS: [&str; 4] = ["#2a6f97", "#c05621", "#2f855a", "#805ad5"];

/// A group of bars for each main figure, with the ratios to the raw client.
#[must_use]
pub(super) fn bars(results: &Results, workload: &Workload) -> String {
    let rows = results.rows(workload.id);
    let rows: Vec<_> =
        rows.filter(|row| workload.main.contains(&row.key.metric.as_str())).collect();
    let (mut body, mut y) = (String::new(), 46.0);
    for group in distinct(rows.iter().map(|row| title(row))) {
        text(&mut body, 8.0, y, "start", &group, true);
        y += 8.0;
        let of_it = rows.iter().filter(|row| title(row) == group);
        let bars: Vec<_> = of_it.filter_map(|row| Some((*row, row.range()?))).collect();
        let scale = Scale::of(bars.iter().flat_map(|(_, range)| [range.min, range.max]));
        for (row, range) in &bars {
            let ratio = results.other(row, RAW).and_then(|raw| row.ratio(raw));
            bar(&mut body, &row.key.subject, *range, ratio, &scale, y);
            y += HEIGHT;
        }
        y += 24.0;
    }
    let title = format!("{}: {}", workload.id, workload.title);
    frame(&title, LEFT + WIDTH + 130.0, y, &body)
}

fn title(row: &Row) -> String {
    let key = &row.key;
    let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
    let tasks = number(key.tasks as f64);
    let place = format!("{} x {}, {}, {tasks} at once", key.nodes, key.server, key.case);
    format!("{}{unit}; {place}", key.metric)
}

/// A plot for each main figure, by the name of its file: against servers where one task asks, else
/// against tasks, waiters or locks.
#[must_use]
pub(super) fn growth(results: &Results, workload: &Workload) -> Vec<(String, String)> {
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
        let plot = plots.entry(words.join("-") + ".svg");
        plot.or_insert((title, over, Vec::new())).2.push((x as f64, row));
    }
    let draw = |(name, (title, over, rows)): (_, (String, String, Points<'_>))| {
        (name, curves(&title, &over, &rows))
    };
    plots.into_iter().map(draw).collect()
}

/// One curve per subject.
fn curves(title: &str, x_name: &str, rows: &[(f64, &Row)]) -> String {
    const TALL: f64 = 280.0;
    let (left, top) = (70.0, 50.0);
    let median = |row: &Row| row.range().map(|range| range.median);
    let across = Scale::of(rows.iter().map(|(x, _)| *x));
    let up = Scale::of(rows.iter().filter_map(|(_, row)| median(row)));
    let mut body = String::new();
    let names = distinct(rows.iter().map(|(_, row)| row.key.subject.as_str()));
    for (at, name) in names.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let mut points = String::new();
        for (x, row) in rows.iter().filter(|(_, row)| row.key.subject == *name) {
            let Some(median) = median(row) else { continue };
            let (px, py) = (left + across.at(*x) * WIDTH, top + (1.0 - up.at(median)) * TALL);
            let _ = write!(points, "{px:.1},{py:.1} ");
            text(&mut body, px, py - 6.0, "middle", &number(median), false);
            text(&mut body, px, top + TALL + 16.0, "middle", &number(*x), false);
        }
        let _ = writeln!(
            body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            points.trim_end()
        );
        let y = top + 14.0 * at as f64;
        let _ = writeln!(
            body,
            r#"<rect x="{:.1}" y="{:.1}" width="10" height="10" fill="{colour}"/>"#,
            left + WIDTH + 20.0,
            y - 9.0
        );
        text(&mut body, left + WIDTH + 36.0, y, "start", name, false);
    }
    text(&mut body, left + WIDTH / 2.0, top + TALL + 34.0, "middle", x_name, true);
    frame(title, left + WIDTH + 150.0, top + TALL + 46.0, &body)
}

fn bar(body: &mut String, name: &str, range: Range, ratio: Option<Range>, scale: &Scale, y: f64) {
    let colour = match name {
        RAW => "#718096",
        "default" | "like for like" => COLOURS[0],
        _ => "#a0aec0",
    };
    let (length, middle) = ((scale.at(range.median) * WIDTH).max(1.0), y + HEIGHT / 2.0);
    text(body, LEFT - 8.0, middle + 4.0, "end", name, false);
    let _ = writeln!(
        body,
        r#"<rect x="{LEFT}" y="{:.1}" width="{length:.1}" height="{:.1}" fill="{colour}"/>"#,
        y + 2.0,
        HEIGHT - 4.0
    );
    let (from, to) = (LEFT + scale.at(range.min) * WIDTH, LEFT + scale.at(range.max) * WIDTH);
    let _ = writeln!(
        body,
        r##"<line x1="{from:.1}" y1="{middle:.1}" x2="{to:.1}" y2="{middle:.1}" stroke="#1a202c"/>"##
    );
    let ratio = ratio.map_or(String::new(), |ratio| format!(" ({}x)", number(ratio.median)));
    let said = number(range.median) + &ratio;
    text(body, to.max(LEFT + length) + 6.0, middle + 4.0, "start", &said, false);
}

fn text(body: &mut String, x: f64, y: f64, anchor: &str, text: &str, strong: bool) {
    let weight = if strong { r#" font-weight="bold""# } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        body,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{weight}>{text}</text>"#
    );
}

fn frame(title: &str, width: f64, height: f64, body: &str) -> String {
    let mut head = String::new();
    text(&mut head, 8.0, 22.0, "start", title, true);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{head}{body}</svg>\n"
    )
}

/// Where a value lies between the ends, by its logarithm: 0 to 1.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = positive.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        // A bar begins below the least, or that one would have no length.
        Self { low: low.min(high) / 1.5, high }
    }

    fn at(&self, value: f64) -> f64 {
        if value <= self.low {
            return 0.0;
        }
        ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }
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
        let svg = bars(&results(&ALL[0], &[("raw", 1, 10.0), ("default", 1, 5.0)]), &ALL[0]);
        // One for the background.
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("(0.50x)") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        assert!(!bars(&Results::default(), &ALL[0]).contains("NaN"));
        assert!(!curves("x", "tasks", &[]).contains("NaN"));
    }

    #[test]
    fn a_curve_has_a_point_for_each_value() {
        let last = &ALL[11];
        let values = [("raw", 4, 10.0), ("raw", 16, 20.0), ("default", 4, 0.0)];
        let plots = growth(&results(last, &values), last);
        let [(name, svg)] = &plots[..] else { panic!("{plots:?}") };
        assert_eq!(name, "growth-pair-p50-tasks-servers-1.svg");
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_scale_is_logarithmic() {
        let scale = Scale { low: 1.0, high: 100.0 };
        let close = |value: f64, to: f64| (scale.at(value) - to).abs() < 1e-9;
        assert!(close(1.0, 0.0) && close(10.0, 0.5) && close(100.0, 1.0) && close(0.0, 0.0));
    }
}
