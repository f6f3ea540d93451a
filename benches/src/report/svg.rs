//! Plots: bars with ranges for workloads, curves for growth. Both axes of a curve, and the one of
//! bars, are logarithmic: ratios are what can be read off.

use std::fmt::Write as _;

use super::table::number;
use crate::book::Row;

/// A bar, and the range of its value.
struct Bar<'a> {
    label: String,
    row: &'a Row,
}

const LEFT: f64 = 210.0;
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 18.0;
const COLOURS: [&str; 4] = ["#2a6f97", "#c05621", "#2f855a", "#805ad5"];

/// One group of bars per figure.
#[must_use]
pub fn bars(title: &str, rows: &[&Row]) -> String {
    let mut body = String::new();
    let mut y = 46.0;
    for group in groups(rows) {
        let first = group[0].row;
        let unit = if first.unit.is_empty() { String::new() } else { format!(", {}", first.unit) };
        let head =
            format!("{}{unit}; {} node(s), {} tasks", first.metric, first.nodes, first.tasks);
        text(&mut body, 8.0, y, "start", &head, true);
        y += 8.0;
        let scale = Scale::of(group.iter().flat_map(|bar| [bar.row.min, bar.row.max]).flatten());
        for bar in &group {
            draw(&mut body, bar, &scale, y);
            y += HEIGHT;
        }
        y += 24.0;
    }
    frame(title, LEFT + WIDTH + 130.0, y, &body)
}

/// One curve per subject.
#[must_use]
pub fn curves(title: &str, x_name: &str, rows: &[(f64, &Row)]) -> String {
    const TALL: f64 = 280.0;
    let (left, top) = (70.0, 50.0);
    let across = Scale::of(rows.iter().map(|(x, _)| *x));
    let up = Scale::of(rows.iter().filter_map(|(_, row)| row.median));
    let mut body = String::new();
    let mut names: Vec<&str> = Vec::new();
    for (_, row) in rows {
        if !names.contains(&row.subject.as_str()) {
            names.push(&row.subject);
        }
    }
    for (at, name) in names.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let mut points = String::new();
        for (x, row) in rows.iter().filter(|(_, row)| row.subject == *name) {
            let Some(median) = row.median else { continue };
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

/// The rows of one figure together, in the order of their subjects.
fn groups<'a>(rows: &[&'a Row]) -> Vec<Vec<Bar<'a>>> {
    let mut groups: Vec<Vec<Bar<'a>>> = Vec::new();
    for &row in rows.iter().filter(|row| row.median.is_some_and(|value| value.is_finite())) {
        let same = |group: &&mut Vec<Bar<'a>>| {
            let first = group[0].row;
            (&first.metric, first.nodes, first.tasks) == (&row.metric, row.nodes, row.tasks)
        };
        let bar = Bar { label: row.subject.clone(), row };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(bar),
            None => groups.push(vec![bar]),
        }
    }
    groups
}

fn draw(body: &mut String, bar: &Bar<'_>, scale: &Scale, y: f64) {
    let (Some(median), Some(min), Some(max)) = (bar.row.median, bar.row.min, bar.row.max) else {
        return;
    };
    let colour = match bar.row.subject.as_str() {
        "raw" => "#718096",
        "default" | "like for like" => COLOURS[0],
        _ => "#a0aec0",
    };
    let (length, middle) = ((scale.at(median) * WIDTH).max(1.0), y + HEIGHT / 2.0);
    text(body, LEFT - 8.0, middle + 4.0, "end", &bar.label, false);
    let _ = writeln!(
        body,
        r#"<rect x="{LEFT}" y="{:.1}" width="{length:.1}" height="{:.1}" fill="{colour}"/>"#,
        y + 2.0,
        HEIGHT - 4.0
    );
    let (from, to) = (LEFT + scale.at(min) * WIDTH, LEFT + scale.at(max) * WIDTH);
    let _ = writeln!(
        body,
        r##"<line x1="{from:.1}" y1="{middle:.1}" x2="{to:.1}" y2="{middle:.1}" stroke="#1a202c"/>"##
    );
    let ratio = bar.row.ratio_to_raw.map_or(String::new(), |r| format!(" ({}x)", number(r)));
    text(
        body,
        to.max(LEFT + length) + 6.0,
        middle + 4.0,
        "start",
        &(number(median) + &ratio),
        false,
    );
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

    fn row(subject: &str, median: f64) -> Row {
        Row {
            id: "P1".into(),
            subject: subject.into(),
            nodes: 1,
            tasks: 1,
            metric: "a < b".into(),
            unit: "us".into(),
            median: Some(median),
            min: Some(median / 2.0),
            max: Some(median * 2.0),
            ratio_to_raw: Some(1.0),
            ratio_min: None,
            ratio_max: None,
        }
    }

    #[test]
    fn every_subject_has_its_bar_and_the_text_is_escaped() {
        let rows = [row("raw", 10.0), row("default", 5.0)];
        let svg = bars("P1", &rows.iter().collect::<Vec<_>>());
        // One for the background.
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        assert!(!bars("P1", &[]).contains("NaN"));
        assert!(!curves("x", "tasks", &[]).contains("NaN"));
    }

    #[test]
    fn a_curve_has_a_point_for_each_value() {
        let rows = [row("raw", 10.0), row("raw", 20.0), row("default", 0.0)];
        let points: Vec<_> = rows.iter().enumerate().map(|(x, row)| (x as f64, row)).collect();
        let svg = curves("growth", "tasks", &points);
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
